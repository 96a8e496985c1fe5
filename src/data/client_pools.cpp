#include "client_pools.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "spec_text.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::data {
namespace {

constexpr const char* kKey = "data.clients";
constexpr int kMaxClients = 1000000;

enum : std::uint64_t { kShuffle = 0, kShares = 1 };  // second word of the stream's key

std::string row_name(const PreferencePair& pair, const DataOptions& options) {
  const auto file = static_cast<std::size_t>(pair.file);
  return fmt::format("{} row {}", file < options.files.size() ? options.files[file] : "file",
                     pair.row);
}

Pool pairs_by_objective(const PreferenceData& data) {
  Pool pool(data.objectives.size());
  for (std::size_t i = 0; i < data.pairs.size(); ++i) {
    pool[static_cast<std::size_t>(data.pairs[i].objective)].push_back(static_cast<int>(i));
  }
  return pool;
}

std::vector<OwnedPairs> by_field(const PreferenceData& data, const DataOptions& options) {
  const auto nameless = [](const PreferencePair& pair) { return pair.client.empty(); };
  const auto count = std::count_if(data.pairs.begin(), data.pairs.end(), nameless);
  if (count > 0) {
    const auto first = std::find_if(data.pairs.begin(), data.pairs.end(), nameless);
    throw Error(Fault::kData,
                fmt::format("{} = field: {} of {} rows in use name no client (the first is {}); "
                            "name one in each row's 'client', or use even:N or dirichlet:N:ALPHA",
                            kKey, count, data.pairs.size(), row_name(*first, options)));
  }
  std::map<std::string, Pool> pools;
  for (std::size_t i = 0; i < data.pairs.size(); ++i) {
    Pool& pool = pools[data.pairs[i].client];
    pool.resize(data.objectives.size());
    pool[static_cast<std::size_t>(data.pairs[i].objective)].push_back(static_cast<int>(i));
  }
  std::vector<OwnedPairs> owned;
  for (auto& [name, pool] : pools) {
    owned.push_back({name, std::move(pool)});
  }
  return owned;
}

/// Deals the shuffled pairs of one objective after the other, so that clients differ by at most one
/// pair in total and per objective.
void deal_evenly(const Pool& shuffled, std::vector<OwnedPairs>& owned) {
  std::size_t next = 0;
  for (std::size_t j = 0; j < shuffled.size(); ++j) {
    for (const int pair : shuffled[j]) {
      owned[next].pool[j].push_back(pair);
      next = (next + 1) % owned.size();
    }
  }
}

/// Objective by objective: shares of the clients ~ Dirichlet(alpha, ..., alpha), pairs cut at the
/// cumulated shares.
void deal_by_shares(const Pool& shuffled, double alpha, std::uint64_t seed,
                    std::vector<OwnedPairs>& owned) {
  const std::vector<double> concentration(owned.size(), alpha);
  for (std::size_t j = 0; j < shuffled.size(); ++j) {
    CounterRng rng({.seed = seed, .purpose = Purpose::kPartition, .a = j, .b = kShares});
    std::vector<double> share = rng.dirichlet(concentration);
    while (!std::all_of(share.begin(), share.end(), [](double x) { return std::isfinite(x); })) {
      share = rng.dirichlet(concentration);  // every gamma draw had underflown
    }
    const auto size = static_cast<double>(shuffled[j].size());
    double cumulated = 0.0;
    std::size_t begin = 0;
    for (std::size_t k = 0; k < owned.size(); ++k) {
      cumulated += share[k];
      const std::size_t end =
          k + 1 == owned.size()
              ? shuffled[j].size()
              : std::min(shuffled[j].size(),
                         static_cast<std::size_t>(std::llround(std::min(cumulated, 1.0) * size)));
      for (; begin < end; ++begin) {
        owned[k].pool[j].push_back(shuffled[j][begin]);
      }
    }
  }
  // A client without pairs cannot take part: it gets one from the largest pool of the largest.
  for (OwnedPairs& poor : owned) {
    if (pool_size(poor.pool) > 0) {
      continue;
    }
    const auto rich = std::max_element(
        owned.begin(), owned.end(),
        [](const auto& a, const auto& b) { return pool_size(a.pool) < pool_size(b.pool); });
    const auto source =
        std::max_element(rich->pool.begin(), rich->pool.end(),
                         [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const auto objective = static_cast<std::size_t>(source - rich->pool.begin());
    poor.pool[objective].push_back(source->back());
    source->pop_back();
  }
}

}  // namespace

std::vector<OwnedPairs> assign_pairs(const PreferenceData& data, const DataOptions& options,
                                     std::uint64_t seed) {
  if (options.clients == "field") {
    return by_field(data, options);
  }
  const Spec spec = parse_spec(options.clients, kKey);
  const bool even = spec.name == "even" && spec.numbers.size() == 1;
  if (!even && !(spec.name == "dirichlet" && spec.numbers.size() == 2)) {
    throw Error(Fault::kConfig, fmt::format("{}: expected field, even:N or dirichlet:N:ALPHA, "
                                            "found '{}'",
                                            kKey, options.clients));
  }
  const int num_clients = whole_number(spec.numbers[0], kMaxClients, kKey, "the number of clients");
  if (!even) {
    check_concentration(spec.numbers[1], kKey);
  }
  if (static_cast<std::size_t>(num_clients) > data.pairs.size()) {
    throw Error(Fault::kData, fmt::format("{} = {}: asks for {} clients, but there are only {} "
                                          "pairs",
                                          kKey, options.clients, num_clients, data.pairs.size()));
  }
  for (const PreferencePair& pair : data.pairs) {
    if (pair.split != RowSplit::kUnset) {
      throw Error(Fault::kData,
                  fmt::format("{} = {}: rows carry a 'split' (the first is {}), which "
                              "only {} = field can respect",
                              kKey, options.clients, row_name(pair, options), kKey));
    }
  }
  std::vector<OwnedPairs> owned(static_cast<std::size_t>(num_clients));
  const std::size_t num_digits =  // so that the order of names is the order of numbers
      std::max<std::size_t>(4, std::to_string(num_clients - 1).size());
  for (std::size_t k = 0; k < owned.size(); ++k) {
    owned[k] = {fmt::format("client-{:0{}}", k, num_digits), Pool(data.objectives.size())};
  }
  Pool shuffled = pairs_by_objective(data);
  for (std::size_t j = 0; j < shuffled.size(); ++j) {
    CounterRng rng({.seed = seed, .purpose = Purpose::kPartition, .a = j, .b = kShuffle});
    rng.shuffle(std::span<int>(shuffled[j]));
  }
  if (even) {
    deal_evenly(shuffled, owned);
  } else {
    deal_by_shares(shuffled, spec.numbers[1], seed, owned);
  }
  for (OwnedPairs& client : owned) {
    for (std::vector<int>& pairs : client.pool) {
      std::sort(pairs.begin(), pairs.end());
    }
  }
  return owned;
}

std::vector<int> stratify(const std::vector<int>& caps, const std::vector<double>& weights,
                          std::int64_t total, std::size_t first_index) {
  const std::size_t m = caps.size();
  std::vector<int> counts(m, 0);
  double sum = 0.0;
  for (const double weight : weights) {
    sum += weight;
  }
  std::int64_t taken = 0;
  for (std::size_t step = 0; step < m && taken < total; ++step) {
    const std::size_t j = (first_index + step) % m;
    if (caps[j] > 0) {
      counts[j] = 1;
      ++taken;
    }
  }
  while (taken < total) {
    std::size_t best = m;
    double best_deficit = 0.0;
    for (std::size_t step = 0; step < m; ++step) {
      const std::size_t j = (first_index + step) % m;
      if (counts[j] >= caps[j]) {
        continue;
      }
      const double target = weights[j] / sum * static_cast<double>(total);
      const double deficit = target - counts[j];
      if (best == m || deficit > best_deficit) {
        best = j;
        best_deficit = deficit;
      }
    }
    if (best == m) {
      break;
    }
    ++counts[best];
    ++taken;
  }
  return counts;
}

}  // namespace apo::data
