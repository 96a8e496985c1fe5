#include "causal_lm_batch.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "lora.hpp"
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include "apo/core/error.hpp"

namespace apo::model {
namespace {

struct Slots {
  std::vector<std::int64_t> slots;
  std::vector<std::int64_t> rows;
};

/// Slots [S, heads, T] of rows [N, heads].
Slots make_slots(const std::vector<std::int64_t>& lengths, std::int64_t heads,
                 std::int64_t max_length, std::int64_t num_tokens) {
  Slots result;
  result.slots.assign(lengths.size() * static_cast<std::size_t>(heads * max_length), -1);
  result.rows.resize(static_cast<std::size_t>(num_tokens * heads));
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t first_slot = (static_cast<std::int64_t>(s) * heads + h) * max_length;
      for (std::int64_t t = 0; t < lengths[s]; ++t) {
        const std::int64_t row = (begin + t) * heads + h;
        result.slots[static_cast<std::size_t>(first_slot + t)] = row;
        result.rows[static_cast<std::size_t>(row)] = first_slot + t;
      }
    }
    begin += lengths[s];
  }
  return result;
}

}  // namespace

PackedBatch make_packed_batch(const ModelConfig& config, std::vector<std::int64_t> ids,
                              std::vector<std::int64_t> lengths,
                              const std::vector<std::int64_t>& kept,
                              const at::TensorOptions& weight_options) {
  expects(!lengths.empty(), "a batch needs at least one sequence");
  for (const std::int64_t length : lengths) {
    expects(length > 0, "a sequence of a batch is empty");
  }
  for (const std::int64_t id : ids) {
    expects(id >= 0 && id < config.vocab_size, "a token id is outside the vocabulary");
  }
  PackedBatch batch;
  batch.lengths = std::move(lengths);
  batch.num_tokens = static_cast<std::int64_t>(ids.size());
  batch.max_length = *std::max_element(batch.lengths.begin(), batch.lengths.end());
  std::vector<std::int64_t> positions;
  positions.reserve(ids.size());
  std::size_t begin = 0;
  for (const std::int64_t length : batch.lengths) {
    const auto count = static_cast<std::size_t>(length);
    expects(begin + count <= ids.size(), "lengths exceed the number of ids");
    batch.content_keys.push_back(content_key(std::span(ids).subspan(begin, count)));
    for (std::int64_t t = 0; t < length; ++t) {
      positions.push_back(t);
    }
    begin += count;
  }
  expects(begin == ids.size(), "lengths do not add up to the number of ids");

  const auto device = weight_options.device();
  const auto on_device = [&device](const std::vector<std::int64_t>& values) {
    return at::tensor(values, at::kLong).to(device);
  };
  // query head h uses key head h / g, so [S, nh, T] is [S, nkv, g, T] without moving anything
  const Slots queries =
      make_slots(batch.lengths, config.num_heads, batch.max_length, batch.num_tokens);
  const Slots keys =
      make_slots(batch.lengths, config.num_kv_heads, batch.max_length, batch.num_tokens);
  batch.ids = on_device(ids);
  batch.positions = on_device(positions);
  batch.query_slots = on_device(queries.slots);
  batch.query_rows = on_device(queries.rows);
  batch.key_slots = on_device(keys.slots);
  batch.key_rows = on_device(keys.rows);

  const std::int64_t group = config.num_heads / config.num_kv_heads;
  const bool wide = weight_options.dtype() == at::kFloat;
  const double lowest =
      wide ? std::numeric_limits<float>::lowest() : -3.38e38;  // in bfloat16's range
  const at::Tensor square =
      at::full({batch.max_length, batch.max_length}, lowest, weight_options.requires_grad(false))
          .triu(1);
  batch.mask = square.repeat({group, 1}).unsqueeze(0);

  if (!kept.empty()) {
    std::vector<std::int64_t> inverse(ids.size(), -1);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      inverse.at(static_cast<std::size_t>(kept[i])) = static_cast<std::int64_t>(i);
    }
    batch.kept = on_device(kept);
    batch.kept_inverse = on_device(inverse);
  }
  return batch;
}

}  // namespace apo::model
