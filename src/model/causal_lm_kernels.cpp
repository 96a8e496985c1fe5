#include "causal_lm_kernels.hpp"

namespace apo::model::kernels {
namespace {

constexpr int kLanes = 16;

}  // namespace

APO_VECTORISED void rotate_row(const float* __restrict x, const float* __restrict cos,
                               const float* __restrict signed_sin, float* __restrict y,
                               std::int64_t hd) {
  const std::int64_t half = hd / 2;
  for (std::int64_t d = 0; d < half; ++d) {
    y[d] = x[d] * cos[d] + x[d + half] * signed_sin[d];
  }
  for (std::int64_t d = half; d < hd; ++d) {
    y[d] = x[d] * cos[d] + x[d - half] * signed_sin[d];
  }
}

APO_VECTORISED void rotate_row_back(const float* __restrict dy, const float* __restrict cos,
                                    const float* __restrict signed_sin, float* __restrict dx,
                                    std::int64_t hd) {
  const std::int64_t half = hd / 2;
  for (std::int64_t d = 0; d < half; ++d) {
    dx[d] = dy[d] * cos[d] + dy[d + half] * signed_sin[d + half];
  }
  for (std::int64_t d = half; d < hd; ++d) {
    dx[d] = dy[d] * cos[d] + dy[d - half] * signed_sin[d - half];
  }
}

APO_VECTORISED float rms_row(const float* __restrict x, const float* __restrict g, float eps,
                             float* __restrict y, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      lanes[l] += x[i + l] * x[i + l];
    }
  }
  float sum = 0.0F;
  for (; i < n; ++i) {
    sum += x[i] * x[i];
  }
  for (const float lane : lanes) {
    sum += lane;
  }
  const float inv = 1.0F / std::sqrt(sum / static_cast<float>(n) + eps);
  for (std::int64_t d = 0; d < n; ++d) {
    y[d] = g[d] * (x[d] * inv);
  }
  return inv;
}

APO_VECTORISED void rms_row_back(const float* __restrict x, const float* __restrict g, float inv,
                                 const float* __restrict dy, float* __restrict dx, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      lanes[l] += dy[i + l] * g[i + l] * x[i + l];
    }
  }
  float dot = 0.0F;
  for (; i < n; ++i) {
    dot += dy[i] * g[i] * x[i];
  }
  for (const float lane : lanes) {
    dot += lane;
  }
  const float factor = dot * inv * inv * inv / static_cast<float>(n);
  for (std::int64_t d = 0; d < n; ++d) {
    dx[d] = dy[d] * g[d] * inv - x[d] * factor;
  }
}

APO_VECTORISED void gated_silu_back(const float* __restrict a, const float* __restrict b,
                                    const float* __restrict s, const float* __restrict dy,
                                    float* __restrict da, float* __restrict db, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    // silu(a) = a * sigma(a), so sigma = s / a: near 0 its series 1/2 + a/4 is exact in float32
    const float sigma = std::fabs(a[i]) > 1e-3F ? s[i] / a[i] : 0.5F + 0.25F * a[i];
    da[i] = dy[i] * b[i] * (sigma + s[i] * (1.0F - sigma));
    db[i] = dy[i] * s[i];
  }
}

APO_VECTORISED void dropout_mask(std::uint64_t state, std::uint32_t threshold, float keep,
                                 float* __restrict mask, std::int64_t n) {
  const auto word = [state](std::uint64_t counter) {  // splitmix64 at position `counter`
    std::uint64_t z = state + (counter + 1) * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  };
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const std::uint64_t bits = word(static_cast<std::uint64_t>(i / 4));
    for (int l = 0; l < 4; ++l) {
      mask[i + l] = ((bits >> (16 * l)) & 0xFFFFU) < threshold ? 0.0F : keep;
    }
  }
  if (i < n) {
    const std::uint64_t bits = word(static_cast<std::uint64_t>(i / 4));
    for (int l = 0; i < n; ++i, ++l) {
      mask[i] = ((bits >> (16 * l)) & 0xFFFFU) < threshold ? 0.0F : keep;
    }
  }
}

}  // namespace apo::model::kernels
