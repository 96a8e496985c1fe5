#pragma once

/// @file
/// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011). A stream is a pure function of
/// its key, so draws do not depend on the number of ranks, on their order, or on a restart.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace apo {

/// What a stream is for. The numbers are part of the reproducibility contract: never renumber.
enum class Purpose : std::uint32_t {
  kAdapterInit = 1,
  kClientSampling = 2,
  kBatch = 3,
  kDropout = 4,
  kEpisode = 5,
  kPreference = 6,
  kPartition = 7,
  kGeneration = 8,
  kSplit = 9,
  kDemo = 10,
  kPretraining = 11,
  kTest = 12,
  kAnalytic = 13,
  kDirection = 14,
  kSchemeInit = 15,
  kMonteCarlo = 16,
  kDitto = 17,
};

/// Key of one stream. a, b, c are whatever the purpose needs, by convention cluster, round, client.
struct StreamKey {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kTest;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
};

/// One stream of random numbers. Copyable; a copy continues from the same position.
class CounterRng {
 public:
  explicit CounterRng(const StreamKey& key) noexcept;

  [[nodiscard]] std::uint32_t next_u32() noexcept;
  [[nodiscard]] std::uint64_t next_u64() noexcept;
  [[nodiscard]] double uniform() noexcept;                      ///< [0, 1), 53 bits
  [[nodiscard]] double normal() noexcept;                       ///< N(0, 1), Box-Muller
  [[nodiscard]] double gamma(double shape) noexcept;            ///< Marsaglia-Tsang, scale 1
  [[nodiscard]] std::uint64_t below(std::uint64_t n) noexcept;  ///< uniform in [0, n), n > 0
  [[nodiscard]] std::vector<double> dirichlet(std::span<const double> alpha);

  /// Fisher-Yates, in place.
  template <class T>
  void shuffle(std::span<T> values) noexcept {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[below(i)]);
    }
  }

  /// k distinct positions of 0..n-1 in draw order; k <= n.
  [[nodiscard]] std::vector<int> sample_without_replacement(int n, int k);

 private:
  std::array<std::uint32_t, 2> key_{};
  std::array<std::uint32_t, 4> counter_{};
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
};

/// The Philox4x32-10 block function, exposed for tests against published vectors.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key) noexcept;

}  // namespace apo
