#pragma once

/// @file
/// Differentiable operations of the forward pass that torch has no good single call for.
/// Private to model.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace apo::model {

/// y[i] = x[index[i]], or a row of zeros where index[i] = -1.
///
/// `index` and `inverse` must be inverse to each other where they are not -1, so that the backward
/// pass is the same gather with the roles exchanged (no scatter, no atomics).
/// @param x  [R, C]; @param index  [Q] int64; @param inverse  [R] int64; @return [Q, C]
[[nodiscard]] at::Tensor gather_rows(const at::Tensor& x, const at::Tensor& index,
                                     const at::Tensor& inverse);

/// Rotary embedding of `x` [N, heads, hd] followed by gather_rows over its N * heads rows.
/// @param cosine  [N, hd]; @param signed_sine  [N, hd], first half negated; both float32
/// @return [Q, hd]
[[nodiscard]] at::Tensor rotate_and_gather(const at::Tensor& x, const at::Tensor& cosine,
                                           const at::Tensor& signed_sine, const at::Tensor& index,
                                           const at::Tensor& inverse);

/// Rotary embedding without a gather. @param x [N, heads, hd]; @return [N, heads, hd]
[[nodiscard]] at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine,
                                const at::Tensor& signed_sine);

/// RMS norm; the cast to the model's type comes before the multiplication by the weight.
/// @param x  [N, H]; @param weight  [H]
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// silu(gate) * up.
[[nodiscard]] at::Tensor gated_silu(const at::Tensor& gate, const at::Tensor& up);

/// Log-probability of one target per row, in float32.
///
/// The softmax is formed for a few rows at a time. What backward needs is the gradient of each
/// row's number with respect to its own hidden row: it is formed here, once, so that any number of
/// backward passes costs one elementwise product each and no logits are kept.
/// @param hidden  [M, H]; @param head  [V, H]; @param targets  [M] int64; @return [M]
[[nodiscard]] at::Tensor target_log_probs(const at::Tensor& hidden, const at::Tensor& head,
                                          const at::Tensor& targets);

}  // namespace apo::model
