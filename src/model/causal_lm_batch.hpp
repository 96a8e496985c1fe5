#pragma once

/// @file
/// Sequences of different lengths as one packed batch: linear layers see only real tokens, and
/// attention sees [S, T] slots. Private to model.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "apo/model/model_config.hpp"

namespace apo::model {

/// S sequences, N tokens in all, at most T each. A slot is a place of the padded layout; padding
/// slots hold -1 and padding never reaches a real token because attention is causal and padding
/// is on the right.
struct PackedBatch {
  std::vector<std::int64_t> lengths;        ///< [S]
  std::vector<std::uint64_t> content_keys;  ///< [S]
  std::int64_t num_tokens = 0;              ///< N
  std::int64_t max_length = 0;              ///< T
  at::Tensor ids;                           ///< [N] int64
  at::Tensor positions;                     ///< [N] int64, from 0 in every sequence
  at::Tensor query_slots;                   ///< [S * nkv * g * T] row of [N * nh]; g = nh / nkv
  at::Tensor query_rows;                    ///< [N * nh] slot: the inverse
  at::Tensor key_slots;                     ///< [S * nkv * T] row of [N * nkv]
  at::Tensor key_rows;                      ///< [N * nkv] slot
  at::Tensor mask;                          ///< [1, g * T, T] 0 or the type's lowest number
  at::Tensor kept;          ///< [K] rows that the last layer goes on with, or undefined: all
  at::Tensor kept_inverse;  ///< [N] place in `kept`, or -1
};

/// @param ids   [N] of all sequences, one after the other; every length at least 1
/// @param kept  [K] ascending rows wanted from the last layer; empty: all
[[nodiscard]] PackedBatch make_packed_batch(const ModelConfig& config,
                                            std::vector<std::int64_t> ids,
                                            std::vector<std::int64_t> lengths,
                                            const std::vector<std::int64_t>& kept,
                                            const at::TensorOptions& weight_options);

}  // namespace apo::model
