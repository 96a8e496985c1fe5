#include "generation.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "apo/core/error.hpp"

namespace apo::model {
namespace {

/// Requests that advance together. Prompts are padded on the left, so that every row's next token
/// is at the same place; rows that have ended are dropped once they are a quarter of the batch.
class Generation {
 public:
  Generation(const CausalLm& lm, const at::Tensor& adapter, const AdapterLayout* layout,
             std::span<const GenerationRequest> requests, const GenerationOptions& options)
      : lm_(lm), adapter_(adapter), layout_(layout), requests_(requests), options_(options) {
    const std::int64_t vocabulary = lm.config().vocab_size;
    num_ids_ = options.num_ids > 0 ? std::min(options.num_ids, vocabulary) : vocabulary;
  }

  std::vector<std::vector<std::int32_t>> run() {
    std::vector<std::vector<std::int32_t>> responses(requests_.size());
    at::Tensor logits = start();
    for (int position = 0; !rows_.empty(); ++position) {
      const std::vector<std::int64_t> next = sample(logits, position, responses);
      if (position + 1 >= options_.max_new_tokens) {
        break;
      }
      const std::vector<std::int64_t> ids = drop_ended(next);
      if (rows_.empty()) {
        break;
      }
      logits = step(ids);
    }
    return responses;
  }

 private:
  struct Row {
    std::size_t request = 0;
    std::int64_t pad = 0;  ///< padding on the left
    bool ended = false;
  };

  at::Tensor start() {
    for (const GenerationRequest& request : requests_) {
      expects(!request.prompt.empty(), "a prompt is empty");
      total_ = std::max(total_, static_cast<std::int64_t>(request.prompt.size()));
    }
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> positions;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const std::vector<std::int32_t>& prompt = requests_[i].prompt;
      const std::int64_t pad = total_ - static_cast<std::int64_t>(prompt.size());
      rows_.push_back({i, pad, false});
      ids.insert(ids.end(), static_cast<std::size_t>(pad), 0);
      positions.insert(positions.end(), static_cast<std::size_t>(pad), 0);
      for (std::size_t t = 0; t < prompt.size(); ++t) {
        expects(prompt[t] >= 0 && prompt[t] < lm_.config().vocab_size,
                "a token id of a prompt is outside the vocabulary");
        ids.push_back(prompt[t]);
        positions.push_back(static_cast<std::int64_t>(t));
      }
    }
    cache_.capacity = total_ + options_.max_new_tokens;
    return forward(ids, positions, total_);
  }

  at::Tensor step(const std::vector<std::int64_t>& ids) {
    ++total_;
    std::vector<std::int64_t> positions;
    for (const Row& row : rows_) {
      positions.push_back(total_ - 1 - row.pad);
    }
    return forward(ids, positions, 1);
  }

  at::Tensor forward(const std::vector<std::int64_t>& ids,
                     const std::vector<std::int64_t>& positions, std::int64_t width) {
    const auto batch_size = static_cast<std::int64_t>(rows_.size());
    at::Tensor key_mask = at::empty({batch_size, total_}, at::kBool);
    bool* allowed = key_mask.mutable_data_ptr<bool>();
    for (std::int64_t b = 0; b < batch_size; ++b) {
      const std::int64_t pad = rows_[static_cast<std::size_t>(b)].pad;
      std::fill_n(allowed + b * total_, pad, false);
      std::fill_n(allowed + b * total_ + pad, total_ - pad, true);
    }
    const at::Device device = lm_.weights().begin()->second.device();
    const auto on_device = [&](const std::vector<std::int64_t>& values) {
      return at::tensor(values, at::kLong).view({batch_size, width}).to(device);
    };
    return lm_.next_logits(on_device(ids), on_device(positions), key_mask.to(device), cache_,
                           adapter_, layout_);
  }

  /// Appends to the responses; returns the next id of every row.
  std::vector<std::int64_t> sample(const at::Tensor& logits, int position,
                                   std::vector<std::vector<std::int32_t>>& responses) {
    const at::Tensor host = logits.cpu().contiguous();
    const float* values = host.const_data_ptr<float>();
    const auto vocabulary = static_cast<std::size_t>(host.size(1));
    std::vector<std::int64_t> next(rows_.size(), 0);
    for (std::size_t b = 0; b < rows_.size(); ++b) {
      Row& row = rows_[b];
      if (row.ended) {
        continue;
      }
      double uniform = 0.0;
      if (options_.temperature > 0.0) {
        CounterRng rng({options_.seed, Purpose::kGeneration, requests_[row.request].key,
                        static_cast<std::uint64_t>(position), 0});
        uniform = rng.uniform();
      }
      const std::int32_t id =
          sample_id({values + b * vocabulary, vocabulary}, num_ids_, options_.temperature, uniform);
      next[b] = id;
      row.ended = std::find(options_.stop_ids.begin(), options_.stop_ids.end(), id) !=
                  options_.stop_ids.end();
      if (!row.ended) {
        responses[row.request].push_back(id);
      }
    }
    return next;
  }

  /// Leaves only running rows once a quarter has ended; returns their ids.
  std::vector<std::int64_t> drop_ended(const std::vector<std::int64_t>& next) {
    const auto num_ended = static_cast<std::size_t>(
        std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.ended; }));
    if (num_ended < rows_.size() && 4 * num_ended < rows_.size()) {
      return next;
    }
    std::vector<std::int64_t> running;
    std::vector<std::int64_t> ids;
    std::vector<Row> rows;
    for (std::size_t b = 0; b < rows_.size(); ++b) {
      if (!rows_[b].ended) {
        running.push_back(static_cast<std::int64_t>(b));
        ids.push_back(next[b]);
        rows.push_back(rows_[b]);
      }
    }
    if (!running.empty() && running.size() < rows_.size()) {
      const at::Tensor index = at::tensor(running, at::kLong).to(cache_.keys.front().device());
      for (std::size_t i = 0; i < cache_.keys.size(); ++i) {
        cache_.keys[i] = cache_.keys[i].index_select(0, index);
        cache_.values[i] = cache_.values[i].index_select(0, index);
      }
    }
    rows_ = std::move(rows);
    return ids;
  }

  const CausalLm& lm_;
  const at::Tensor& adapter_;
  const AdapterLayout* layout_;
  std::span<const GenerationRequest> requests_;
  const GenerationOptions& options_;
  std::int64_t num_ids_ = 0;
  std::int64_t total_ = 0;  ///< positions in the cache, padding included
  std::vector<Row> rows_;
  KvCache cache_;
};

}  // namespace

std::int32_t sample_id(std::span<const float> logits, std::int64_t num_ids, double temperature,
                       double uniform) {
  const auto first = logits.begin();
  const auto last = first + num_ids;
  const auto largest = std::max_element(first, last);
  if (temperature <= 0.0) {
    return static_cast<std::int32_t>(largest - first);
  }
  const float top = *largest;
  const auto inverse_temperature = static_cast<float>(1.0 / temperature);
  double sum = 0.0;
  for (auto it = first; it != last; ++it) {
    sum += static_cast<double>(std::exp((*it - top) * inverse_temperature));
  }
  const double target = uniform * sum;
  double cumulative = 0.0;
  for (auto it = first; it != last; ++it) {
    cumulative += static_cast<double>(std::exp((*it - top) * inverse_temperature));
    if (cumulative > target) {
      return static_cast<std::int32_t>(it - first);
    }
  }
  return static_cast<std::int32_t>(largest - first);  // rounding of the last addend
}

std::vector<std::vector<std::int32_t>> generate_responses(
    const CausalLm& lm, const at::Tensor& adapter, const AdapterLayout* layout,
    std::span<const GenerationRequest> requests, const GenerationOptions& options) {
  expects(options.batch_size > 0, "batch_size must be positive");
  const at::NoGradGuard no_grad;
  std::vector<std::vector<std::int32_t>> responses;
  if (options.max_new_tokens <= 0) {
    responses.resize(requests.size());
    return responses;
  }
  const auto batch_size = static_cast<std::size_t>(options.batch_size);
  for (std::size_t begin = 0; begin < requests.size(); begin += batch_size) {
    const auto part = requests.subspan(begin, std::min(batch_size, requests.size() - begin));
    for (std::vector<std::int32_t>& response :
         Generation(lm, adapter, layout, part, options).run()) {
      responses.push_back(std::move(response));
    }
  }
  return responses;
}

}  // namespace apo::model
