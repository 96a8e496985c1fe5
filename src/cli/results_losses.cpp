#include <algorithm>
#include <optional>

#include "results_sections.hpp"
#include <fmt/format.h>

namespace apo::cli {
namespace {

double gap_of(const Row& row) { return row.gap; }

std::string value(const std::optional<Estimate>& x) {
  return x ? small_cell(x->interval.mean) : "-";
}

std::string interval(const std::optional<Estimate>& x) {
  return x ? interval_cell(x->interval.low(), x->interval.high(), "{:.4g}") : "-";
}

/// The label without the budget, which has a column of its own.
std::string without_budget(std::string label, const std::string& budget) {
  const std::string part = " clustering.budget=" + budget;
  const std::size_t begin = label.find(part);
  if (begin != std::string::npos &&
      (begin + part.size() == label.size() || label[begin + part.size()] == ' ')) {
    label.erase(begin, part.size());
  }
  return label;
}

}  // namespace

TextTable loss_table(const std::vector<Row>& rows) {
  const std::vector<std::pair<std::string, Measure>> measures = {
      {"loss", [](const Row& row) { return row.weighted_loss; }},
      {"chebyshev", [](const Row& row) { return row.chebyshev; }},
      {"uniformity", [](const Row& row) { return row.uniformity; }},
      {"accuracy", [](const Row& row) { return row.weighted_accuracy; }}};
  TextTable table;
  table.title = "Held-out losses and accuracy of test clients, 95 % intervals";
  table.head = {"method", "stage", "over", "clients"};
  for (const auto& [name, of] : measures) {
    table.head.insert(table.head.end(), {name, name + " 95 %"});
  }
  if (!has_any(rows, measures[1].second)) {
    return table;  // an older file
  }
  for (const std::string& label : labels_of(rows)) {
    for (const char* stage : {"base", "initialiser", "adapted"}) {
      const Rows here = at_stage(rows, label, stage);
      const auto loss = estimate(by_client(here, measures[0].second));
      if (!loss) {
        continue;
      }
      std::vector<std::string> line = {label, stage, loss->over(),
                                       std::to_string(loss->num_clients)};
      for (const auto& [name, of] : measures) {
        const auto result = estimate(by_client(here, of));
        line.insert(line.end(), {value(result), interval(result)});
      }
      table.rows.push_back(std::move(line));
    }
  }
  return table;
}

TextTable gap_table(const std::vector<RunResults>& runs, const std::vector<std::string>& labels,
                    const std::vector<Row>& rows) {
  TextTable table;
  table.title =
      "Chebyshev gap of test clients (largest weighted loss above its optimum), 95 % intervals";
  table.head = {"method",  "budget",       "clusters",        "over",
                "clients", "base",         "initialiser",     "initialiser 95 %",
                "adapted", "adapted 95 %", "distance adapted"};
  if (!has_any(rows, gap_of)) {
    return table;
  }
  for (const std::string& label : labels_of(rows)) {
    const Rows after = after_adaptation(rows, label);
    const auto adapted = estimate(by_client(after, gap_of));
    if (!adapted) {
      continue;
    }
    const auto base = estimate(by_client(at_stage(rows, label, "base"), gap_of));
    const auto initialiser = estimate(by_client(before_adaptation(rows, label), gap_of));
    std::string budget;
    std::int64_t fewest = 0;
    std::int64_t most = 0;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (labels[r] == label) {
        budget = setting(runs[r], "clustering.budget");
        fewest = fewest == 0 ? runs[r].num_clusters : std::min(fewest, runs[r].num_clusters);
        most = std::max(most, runs[r].num_clusters);
      }
    }
    table.rows.push_back(
        {without_budget(label, budget), budget.empty() ? "-" : budget,
         fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most),
         adapted->over(), std::to_string(adapted->num_clients), value(base), value(initialiser),
         interval(initialiser), value(adapted), interval(adapted),
         value(estimate(by_client(after, [](const Row& row) { return row.distance; })))});
  }
  return table;
}

}  // namespace apo::cli
