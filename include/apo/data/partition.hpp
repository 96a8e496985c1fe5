#pragma once

/// @file
/// Clients: who owns which pairs, and what they prefer (spec algorithms.md 1.7; APO paper, app. B).

#include <cstdint>
#include <string>
#include <vector>

#include "apo/core/ids.hpp"
#include "apo/data/preference_data.hpp"

namespace apo::data {

enum class ClientSplit { kTrain, kTest };

/// Positions in PreferenceData::pairs, by objective.
using Pool = std::vector<std::vector<int>>;  // [m][*]

[[nodiscard]] std::int64_t pool_size(const Pool& pool);

struct Client {
  ClientId id;
  std::string name;
  ClientSplit split = ClientSplit::kTrain;
  std::vector<double> preference;  ///< lambda, [m], strictly positive, sums to 1
  Pool train;                      ///< train clients: all their pairs. Test clients: empty
  Pool adapt;                      ///< test clients: what they may adapt on (data.adapt_pairs)
  Pool evaluate;                   ///< test clients: what evaluates them

  [[nodiscard]] std::int64_t num_pairs() const;  ///< train + adapt: the weight N_i
};

struct Partition {
  std::vector<Client> clients;  ///< by id; ids are assigned in the order of sorted names
  std::map<std::string, std::int64_t> dropped;
  /// Number of the texts (prompt and both responses, in either order) of every pair: pairs that
  /// label the same texts under different objectives share it.
  std::vector<int> text_of_pair;

  [[nodiscard]] std::vector<ClientId> train_clients() const;
  [[nodiscard]] std::vector<ClientId> test_clients() const;
};

/// PreferenceData::pairs -> number of their texts, in order of first appearance.
[[nodiscard]] std::vector<int> number_texts(const PreferenceData& data);

/// Assigns pairs to clients, clients to splits, and preferences to clients. A pure function of its
/// arguments.
///
/// Splits: when rows carry one, it decides, data.test_fraction and data.adapt_pairs are ignored,
/// and data.pairs_per_client limits the training clients only. Otherwise the test clients are drawn
/// among those with at least two pairs whose objectives other training clients have too, and
/// data.adapt_pairs of each are drawn in proportion to its objectives, leaving at least one of each
/// to evaluate. dirichlet:N:ALPHA: a client that draws no pair gets one from the largest client.
///
/// @throws Error(kData)  a client without pairs of any objective, a preference file that does not
///         name a client, an objective that no training client has, more clients asked for than
///         pairs
[[nodiscard]] Partition make_partition(const PreferenceData& data, const DataOptions& options,
                                       std::uint64_t seed);

}  // namespace apo::data
