#pragma once

/// @file
/// Which pairs a client computes on in a step (spec algorithms.md, section 1.7).

#include <cstdint>
#include <span>
#include <vector>

#include "apo/core/rng.hpp"
#include "apo/data/partition.hpp"

namespace apo::federation {

/// B_j = max(1, round(B |D_j| / N)) for objectives with pairs, 0 for the others.
[[nodiscard]] std::vector<int> stratified_counts(const data::Pool& pool, int batch_size);

/// Draws stratified batches without replacement inside each objective; a pool that runs out is
/// reshuffled.
///
/// A pool's order is by a random number that belongs to the pair's texts. Each objective's draws
/// are as random as ever, but objectives that label the same texts tend to meet them in the same
/// step, and equal sequences of a step are computed once.
class BatchSampler {
 public:
  /// @param text_of_pair  number of every pair's texts, by position in the data (see Partition);
  ///                      empty: each pair has its own
  BatchSampler(data::Pool pool, const StreamKey& key, std::span<const int> text_of_pair);

  [[nodiscard]] std::vector<std::vector<int>> next(int batch_size);  ///< [m][*]

 private:
  void shuffle(std::size_t objective);

  data::Pool pool_;
  std::vector<std::size_t> position_;
  std::vector<std::uint64_t> epoch_;  ///< times that the objective's pool was shuffled
  std::uint64_t salt_;
  std::vector<int> text_of_pair_;
};

/// `shots` pairs of a pool, stratified, without replacement: the support set of an episode. A pool
/// with fewer pairs is returned whole.
[[nodiscard]] data::Pool draw_support(const data::Pool& pool, int shots, CounterRng& rng);

}  // namespace apo::federation
