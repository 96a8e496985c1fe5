#pragma once

/// @file
/// Inner loops on float32 rows, written so that the compiler vectorises them: sums run over
/// kLanes independent partial sums, in an order that does not depend on the instruction set.

#include <cmath>
#include <cstdint>

// Sanitizers do not get along with the resolvers that pick a clone at load time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define APO_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define APO_VECTORISED
#endif

namespace apo::model::kernels {

/// y = x * cos + swap_halves(x) * signed_sin; hd even.
void rotate_row(const float* __restrict x, const float* __restrict cos,
                const float* __restrict signed_sin, float* __restrict y, std::int64_t hd);
/// The transpose of rotate_row.
void rotate_row_back(const float* __restrict dy, const float* __restrict cos,
                     const float* __restrict signed_sin, float* __restrict dx, std::int64_t hd);
/// y = g * (x * inv); returns inv = 1 / sqrt(mean(x^2) + eps).
float rms_row(const float* __restrict x, const float* __restrict g, float eps, float* __restrict y,
              std::int64_t n);
void rms_row_back(const float* __restrict x, const float* __restrict g, float inv,
                  const float* __restrict dy, float* __restrict dx, std::int64_t n);
/// Gradient of silu(a) * b; s = silu(a).
void gated_silu_back(const float* __restrict a, const float* __restrict b,
                     const float* __restrict s, const float* __restrict dy, float* __restrict da,
                     float* __restrict db, std::int64_t n);
/// mask[i] = 0 with probability threshold / 65536, else `keep`; a pure function of `state`.
void dropout_mask(std::uint64_t state, std::uint32_t threshold, float keep, float* __restrict mask,
                  std::int64_t n);

}  // namespace apo::model::kernels
