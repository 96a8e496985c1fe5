#include "apo/clustering/options.hpp"

#include <charconv>
#include <string_view>
#include <system_error>

#include "apo/core/error.hpp"

namespace apo::clustering {

int warm_rounds(const ClusteringOptions& options) {
  constexpr std::string_view kWarm = "warm:";
  const std::string_view text = options.reference;
  if (text == "initial") {
    return 0;
  }
  if (text.starts_with(kWarm)) {
    const std::string_view number = text.substr(kWarm.size());
    int rounds = 0;
    const auto [end, status] =
        std::from_chars(number.data(), number.data() + number.size(), rounds);
    if (status == std::errc{} && end == number.data() + number.size() && rounds >= 1) {
      return rounds;
    }
  }
  throw Error(Fault::kConfig,
              "clustering.reference: expected initial or warm:ROUNDS with a whole number of rounds "
              "from 1, found '" +
                  options.reference + "'");
}

void declare(FieldTable& table, ClusteringOptions& options) {
  table.choice(
      "clustering.method", options.method, {"bac", "hc", "none"},
      "bac: bottleneck order, then adjustment vectors; hc: preference vectors alone; none: "
      "one cluster");
  table.integer("clustering.budget", options.budget, {1, 1000000}, "clusters",
                "Number of clusters");
  table.choice(
      "clustering.linkage", options.linkage, {"ward", "average", "complete", "single"},
      "Merge cost: Ward's, or the average, largest or smallest distance; all but ward take "
      "at most 20000 different clients per bottleneck order");
  table.choice("clustering.weights", options.weights, {"pairs", "equal"},
               "A client's weight: its number of pairs, or 1");
  table.text("clustering.reference", options.reference,
             "Where the losses that cluster the clients are taken: initial (the untrained adapter) "
             "or warm:ROUNDS (after that many FedAvg rounds over all clients)");
  table.choice("clustering.budget_policy", options.budget_policy, {"merge", "raise"},
               "When the budget is below the number of bottleneck orders: merge orders, or use "
               "more clusters");
  table.choice("clustering.allocation", options.allocation, {"height", "largest_remainder"},
               "How the budget is spread over bottleneck orders: one common height, or in "
               "proportion to their clients");
  table.flag("clustering.force_budget", options.force_budget,
             "Meet the budget even if clients with equal vectors must be parted");
}

}  // namespace apo::clustering
