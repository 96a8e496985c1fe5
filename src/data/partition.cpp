#include "apo/data/partition.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "client_pools.hpp"
#include "apo/data/preference_vectors.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"

namespace apo::data {
namespace {

// First word of the key of each stream of Purpose::kSplit; the second is the client's position.
enum : std::uint64_t { kTestClients = 0, kAdaptPairs = 1, kSubsample = 2 };

/// Moves `count` randomly chosen entries of `pairs` to the result; both stay ascending.
std::vector<int> draw_pairs(std::vector<int>& pairs, int count, const StreamKey& key) {
  CounterRng rng(key);
  std::vector<int> positions =
      rng.sample_without_replacement(static_cast<int>(pairs.size()), count);
  std::sort(positions.begin(), positions.end());
  std::vector<int> drawn;
  std::vector<int> left;
  std::size_t next = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (next < positions.size() && positions[next] == static_cast<int>(i)) {
      drawn.push_back(pairs[i]);
      ++next;
    } else {
      left.push_back(pairs[i]);
    }
  }
  pairs = std::move(left);
  return drawn;
}

class Divider {
 public:
  Divider(const PreferenceData& data, const DataOptions& options, std::uint64_t seed)
      : data_(data), options_(options), seed_(seed), m_(data.objectives.size()) {}

  Partition divide() {
    std::vector<OwnedPairs> owned = assign_pairs(data_, options_, seed_);
    std::vector<std::string> names;
    for (const OwnedPairs& entry : owned) {
      names.push_back(entry.client);
    }
    const auto preferences = make_preferences(options_.preferences, names, data_.objectives, seed_);
    for (std::size_t k = 0; k < owned.size(); ++k) {
      Client client;
      client.id = ClientId{static_cast<std::int32_t>(k)};
      client.name = owned[k].client;
      client.preference = preferences[k];
      client.train = std::move(owned[k].pool);
      client.adapt.resize(m_);
      client.evaluate.resize(m_);
      result_.clients.push_back(std::move(client));
    }
    const bool rows_carry_split =
        std::any_of(data_.pairs.begin(), data_.pairs.end(),
                    [](const auto& pair) { return pair.split != RowSplit::kUnset; });
    if (rows_carry_split) {
      split_by_rows();
      subsample_train_pools();
    } else {
      subsample_train_pools();
      split_by_fraction();
    }
    check_objectives();
    return std::move(result_);
  }

 private:
  void count(const std::string& reason, std::int64_t number) {
    if (number > 0) {
      result_.dropped[reason] += number;
    }
  }

  /// At most pairs_per_client of each train pool. Ties between objectives start at another one for
  /// each client, so that a small limit does not always cost the last objective.
  void subsample_train_pools() {
    if (options_.pairs_per_client == 0) {
      return;
    }
    for (Client& client : result_.clients) {
      const std::int64_t size = pool_size(client.train);
      if (size <= options_.pairs_per_client) {
        continue;
      }
      const std::vector<int> counts = stratify(sizes_of(client.train), std::vector<double>(m_, 1.0),
                                               options_.pairs_per_client, client.id.index() % m_);
      for (std::size_t j = 0; j < m_; ++j) {
        client.train[j] = draw_pairs(client.train[j], counts[j], key(kSubsample, client, j));
      }
      count("more than pairs_per_client", size - pool_size(client.train));
    }
  }

  void split_by_rows() {
    std::string mixed;
    std::string lacking;
    for (Client& client : result_.clients) {
      Pool train(m_);
      for (std::size_t j = 0; j < m_; ++j) {
        for (const int pair : client.train[j]) {
          const RowSplit split = data_.pairs[static_cast<std::size_t>(pair)].split;
          Pool& pool = split == RowSplit::kAdapt      ? client.adapt
                       : split == RowSplit::kEvaluate ? client.evaluate
                                                      : train;
          pool[j].push_back(pair);
        }
      }
      client.train = std::move(train);
      const std::int64_t num_train = pool_size(client.train);
      const std::int64_t num_adapt = pool_size(client.adapt);
      const std::int64_t num_evaluate = pool_size(client.evaluate);
      if (num_adapt + num_evaluate == 0) {
        continue;
      }
      client.split = ClientSplit::kTest;
      const std::string counts =
          fmt::format("\n  client '{}': {} train (or without split), {} adapt, {} evaluate",
                      client.name, num_train, num_adapt, num_evaluate);
      if (num_train > 0) {
        mixed += counts;
      } else if (num_adapt == 0 || num_evaluate == 0) {
        lacking += counts;
      }
    }
    if (!mixed.empty()) {
      throw Error(Fault::kData,
                  "the rows' 'split' gives clients both training rows and test rows; "
                  "a client is either:" +
                      mixed);
    }
    if (!lacking.empty()) {
      throw Error(Fault::kData,
                  "the rows' 'split' must give each test client rows to adapt on and rows to "
                  "evaluate it:" +
                      lacking);
    }
  }

  /// A seeded draw of the test clients. Clients with one pair cannot be adapted and evaluated, and
  /// the last training client of an objective stays one.
  void split_by_fraction() {
    if (options_.test_fraction <= 0.0) {
      return;
    }
    const std::size_t n = result_.clients.size();
    const auto wanted =
        std::max<std::int64_t>(1, std::llround(options_.test_fraction * static_cast<double>(n)));
    std::vector<int> owners(m_, 0);
    for (const Client& client : result_.clients) {
      for (std::size_t j = 0; j < m_; ++j) {
        owners[j] += client.train[j].empty() ? 0 : 1;
      }
    }
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    CounterRng rng({.seed = seed_, .purpose = Purpose::kSplit, .a = kTestClients});
    rng.shuffle(std::span<std::size_t>(order));
    std::int64_t num_test = 0;
    for (const std::size_t k : order) {
      Client& client = result_.clients[k];
      bool eligible = num_test < wanted && pool_size(client.train) >= 2;
      for (std::size_t j = 0; j < m_; ++j) {
        eligible = eligible && (client.train[j].empty() || owners[j] > 1);
      }
      if (!eligible) {
        continue;
      }
      for (std::size_t j = 0; j < m_; ++j) {
        owners[j] -= client.train[j].empty() ? 0 : 1;
      }
      ++num_test;
      make_test_client(client);
    }
    if (num_test == 0) {
      throw Error(Fault::kData,
                  fmt::format("data.test_fraction = {}: none of the {} clients can be a test "
                              "client: one needs at least 2 pairs, and its objectives must remain "
                              "with another client; give more clients, or set it to 0",
                              options_.test_fraction, n));
    }
    count("clients short of data.test_fraction", wanted - num_test);
  }

  void make_test_client(Client& client) {
    client.split = ClientSplit::kTest;
    // At least one pair of each objective evaluates; the only pair of an objective does so.
    std::vector<int> caps = sizes_of(client.train);
    std::vector<double> weights(m_, 0.0);
    for (std::size_t j = 0; j < m_; ++j) {
      weights[j] = static_cast<double>(caps[j]);
      count("test client's only pair of an objective (not adapted on)", caps[j] == 1 ? 1 : 0);
      caps[j] = std::max(0, caps[j] - 1);
    }
    std::int64_t total = options_.adapt_pairs;
    const auto num_present =
        std::count_if(caps.begin(), caps.end(), [](int cap) { return cap > 0; });
    if (num_present == 0) {  // one pair of each objective: the first one adapts
      const auto first = std::find_if(client.train.begin(), client.train.end(),
                                      [](const auto& pairs) { return !pairs.empty(); });
      caps[static_cast<std::size_t>(first - client.train.begin())] = 1;
      total = 1;
    }
    const std::vector<int> counts =
        stratify(caps, weights, std::max<std::int64_t>(total, num_present), 0);
    std::int64_t num_adapt = 0;
    for (std::size_t j = 0; j < m_; ++j) {
      client.adapt[j] = draw_pairs(client.train[j], counts[j], key(kAdaptPairs, client, j));
      client.evaluate[j] = std::move(client.train[j]);
      client.train[j].clear();
      num_adapt += counts[j];
    }
    count("test clients with fewer than data.adapt_pairs",
          num_adapt < options_.adapt_pairs ? 1 : 0);
  }

  void check_objectives() const {
    if (result_.train_clients().empty()) {
      throw Error(Fault::kData, "no client is left for training: every client is a test client");
    }
    for (std::size_t j = 0; j < m_; ++j) {
      const bool trained =
          std::any_of(result_.clients.begin(), result_.clients.end(),
                      [j](const Client& client) { return !client.train[j].empty(); });
      if (!trained) {
        throw Error(Fault::kData,
                    fmt::format("no training client has a pair of objective '{}'; {} training and "
                                "{} test clients were made of {} pairs (data.clients, "
                                "data.test_fraction, data.pairs_per_client)",
                                data_.objectives[j], result_.train_clients().size(),
                                result_.test_clients().size(), data_.pairs.size()));
      }
    }
  }

  [[nodiscard]] std::vector<int> sizes_of(const Pool& pool) const {
    std::vector<int> sizes(m_);
    for (std::size_t j = 0; j < m_; ++j) {
      sizes[j] = static_cast<int>(pool[j].size());
    }
    return sizes;
  }

  [[nodiscard]] StreamKey key(std::uint64_t use, const Client& client, std::size_t j) const {
    return {.seed = seed_, .purpose = Purpose::kSplit, .a = use, .b = client.id.index(), .c = j};
  }

  const PreferenceData& data_;
  const DataOptions& options_;
  std::uint64_t seed_;
  std::size_t m_;
  Partition result_;
};

}  // namespace

std::int64_t pool_size(const Pool& pool) {
  std::int64_t size = 0;
  for (const std::vector<int>& pairs : pool) {
    size += static_cast<std::int64_t>(pairs.size());
  }
  return size;
}

std::int64_t Client::num_pairs() const { return pool_size(train) + pool_size(adapt); }

std::vector<ClientId> Partition::train_clients() const {
  std::vector<ClientId> ids;
  for (const Client& client : clients) {
    if (client.split == ClientSplit::kTrain) {
      ids.push_back(client.id);
    }
  }
  return ids;
}

std::vector<ClientId> Partition::test_clients() const {
  std::vector<ClientId> ids;
  for (const Client& client : clients) {
    if (client.split == ClientSplit::kTest) {
      ids.push_back(client.id);
    }
  }
  return ids;
}

std::vector<int> number_texts(const PreferenceData& data) {
  std::map<std::string, int> numbers;
  std::vector<int> result;
  result.reserve(data.pairs.size());
  for (const PreferencePair& pair : data.pairs) {
    // Lengths in front, so that no two different lists of texts run together to the same key.
    std::string key;
    const auto add = [&key](const std::string& text) {
      key += std::to_string(text.size()) + ":" + text;
    };
    for (const text::Turn& turn : pair.prompt) {
      add(turn.role);
      add(turn.content);
    }
    add(std::min(pair.chosen, pair.rejected));
    add(std::max(pair.chosen, pair.rejected));
    result.push_back(
        numbers.emplace(std::move(key), static_cast<int>(numbers.size())).first->second);
  }
  return result;
}

Partition make_partition(const PreferenceData& data, const DataOptions& options,
                         std::uint64_t seed) {
  Partition partition = Divider(data, options, seed).divide();
  partition.text_of_pair = number_texts(data);
  return partition;
}

}  // namespace apo::data
