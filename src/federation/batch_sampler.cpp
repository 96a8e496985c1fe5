#include "apo/federation/batch_sampler.hpp"

#include <algorithm>
#include <cmath>

#include "apo/core/error.hpp"

namespace apo::federation {

std::vector<int> stratified_counts(const data::Pool& pool, int batch_size) {
  const auto total = static_cast<double>(data::pool_size(pool));
  std::vector<int> counts(pool.size(), 0);
  for (std::size_t j = 0; j < pool.size(); ++j) {
    if (!pool[j].empty()) {
      const double share = batch_size * static_cast<double>(pool[j].size()) / total;
      counts[j] = std::max(1, static_cast<int>(std::lround(share)));
    }
  }
  return counts;
}

BatchSampler::BatchSampler(data::Pool pool, const StreamKey& key, std::span<const int> text_of_pair)
    : pool_(std::move(pool)),
      position_(pool_.size(), 0),
      epoch_(pool_.size(), 0),
      salt_(CounterRng(key).next_u64()),
      text_of_pair_(text_of_pair.begin(), text_of_pair.end()) {
  expects(data::pool_size(pool_) > 0, "BatchSampler: a client without pairs");
  for (std::size_t j = 0; j < pool_.size(); ++j) {
    shuffle(j);
  }
}

void BatchSampler::shuffle(std::size_t objective) {
  std::vector<int>& pairs = pool_[objective];
  std::vector<std::pair<std::uint64_t, int>> order;
  for (const int pair : pairs) {
    const auto text = static_cast<std::uint64_t>(
        text_of_pair_.empty() ? pair : text_of_pair_[static_cast<std::size_t>(pair)]);
    order.emplace_back(CounterRng({salt_, Purpose::kBatch, epoch_[objective], text}).next_u64(),
                       pair);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    pairs[k] = order[k].second;
  }
  ++epoch_[objective];
  position_[objective] = 0;
}

std::vector<std::vector<int>> BatchSampler::next(int batch_size) {
  const std::vector<int> counts = stratified_counts(pool_, batch_size);
  std::vector<std::vector<int>> batch(pool_.size());
  for (std::size_t j = 0; j < pool_.size(); ++j) {
    for (int k = 0; k < counts[j]; ++k) {
      if (position_[j] == pool_[j].size()) {
        shuffle(j);
      }
      batch[j].push_back(pool_[j][position_[j]++]);
    }
  }
  return batch;
}

data::Pool draw_support(const data::Pool& pool, int shots, CounterRng& rng) {
  if (data::pool_size(pool) <= shots) {
    return pool;
  }
  const std::vector<int> counts = stratified_counts(pool, shots);
  data::Pool support(pool.size());
  for (std::size_t j = 0; j < pool.size(); ++j) {
    const int size = static_cast<int>(pool[j].size());
    for (const int k : rng.sample_without_replacement(size, std::min(size, counts[j]))) {
      support[j].push_back(pool[j][static_cast<std::size_t>(k)]);
    }
    std::sort(support[j].begin(), support[j].end());
  }
  return support;
}

}  // namespace apo::federation
