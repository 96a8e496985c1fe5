#include "apo/core/rng.hpp"

#include <cmath>
#include <numbers>
#include <numeric>

#include "apo/core/error.hpp"

namespace apo {
namespace {

std::uint64_t mix(std::uint64_t x) noexcept {  // SplitMix64's finaliser (Steele et al. 2014)
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    const auto hi0 = static_cast<std::uint32_t>(p0 >> 32);
    const auto lo0 = static_cast<std::uint32_t>(p0);
    const auto hi1 = static_cast<std::uint32_t>(p1 >> 32);
    const auto lo1 = static_cast<std::uint32_t>(p1);
    counter = {hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

CounterRng::CounterRng(const StreamKey& key) noexcept {
  // The key words of Philox hold (seed, purpose); the upper half of the counter holds (a, b, c), so
  // streams of one seed and purpose never share a block unless their 64-bit digests collide.
  const std::uint64_t k = mix(mix(key.seed) ^ static_cast<std::uint64_t>(key.purpose));
  const std::uint64_t s = mix(mix(mix(mix(key.a) ^ key.b) ^ key.c) ^ k);
  key_ = {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32)};
  counter_ = {0, 0, static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(s >> 32)};
}

std::uint32_t CounterRng::next_u32() noexcept {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    used_ = 0;
    if (++counter_[0] == 0) {
      ++counter_[1];
    }
  }
  return block_[used_++];
}

std::uint64_t CounterRng::next_u64() noexcept {
  const std::uint64_t low = next_u32();
  return low | (std::uint64_t{next_u32()} << 32);
}

double CounterRng::uniform() noexcept { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

double CounterRng::normal() noexcept {
  // 1 - u is in (0, 1], so the logarithm is finite. The second value is not kept: a stream's
  // position then only depends on the number of draws.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double CounterRng::gamma(double shape) noexcept {
  if (shape < 1.0) {
    const double u = 1.0 - uniform();
    return gamma(shape + 1.0) * std::pow(u, 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0.0) {
      continue;
    }
    const double u = 1.0 - uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

std::uint64_t CounterRng::below(std::uint64_t n) noexcept {
  const std::uint64_t limit = (~std::uint64_t{0} / n) * n;  // rejects the incomplete last interval
  std::uint64_t x = next_u64();
  while (x >= limit) {
    x = next_u64();
  }
  return x % n;
}

std::vector<double> CounterRng::dirichlet(std::span<const double> alpha) {
  std::vector<double> draw(alpha.size());
  double sum = 0.0;
  for (std::size_t j = 0; j < alpha.size(); ++j) {
    draw[j] = gamma(alpha[j]);
    sum += draw[j];
  }
  for (double& x : draw) {
    x /= sum;
  }
  return draw;
}

std::vector<int> CounterRng::sample_without_replacement(int n, int k) {
  expects(k >= 0 && k <= n, "sample_without_replacement: k must be in [0, n]");
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  for (int i = 0; i < k; ++i) {
    const auto j = static_cast<std::size_t>(i) + below(static_cast<std::uint64_t>(n - i));
    std::swap(all[static_cast<std::size_t>(i)], all[j]);
  }
  all.resize(static_cast<std::size_t>(k));
  return all;
}

}  // namespace apo
