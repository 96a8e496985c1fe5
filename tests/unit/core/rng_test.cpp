#include "apo/core/rng.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace apo {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers of Random123 (kat_vectors, philox4x32-10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(
      philox4x32({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
      (Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(CounterRng, KeysNameStreams) {
  const StreamKey key{1, Purpose::kBatch, 2, 3, 4};
  CounterRng a(key);
  CounterRng b(key);
  std::set<std::uint64_t> first;
  for (int k = 0; k < 100; ++k) {
    EXPECT_EQ(a.next_u64(), b.next_u64());
  }
  for (std::uint64_t x = 0; x < 50; ++x) {
    first.insert(CounterRng({x, Purpose::kBatch, 2, 3, 4}).next_u64());
    first.insert(CounterRng({1, Purpose::kBatch, 100 + x, 3, 4}).next_u64());
    first.insert(CounterRng({1, Purpose::kBatch, 2, 100 + x, 4}).next_u64());
    first.insert(CounterRng({1, Purpose::kBatch, 2, 3, 100 + x}).next_u64());
  }
  first.insert(CounterRng({1, Purpose::kDropout, 2, 3, 4}).next_u64());
  EXPECT_EQ(first.size(), 201U);
}

TEST(CounterRng, MomentsOfUniformNormalGamma) {
  CounterRng rng({5, Purpose::kTest});
  constexpr int kDraws = 200000;
  double uniform = 0.0;
  double normal = 0.0;
  double normal2 = 0.0;
  double gamma = 0.0;
  double small_gamma = 0.0;
  for (int k = 0; k < kDraws; ++k) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform += u;
    const double x = rng.normal();
    normal += x;
    normal2 += x * x;
    gamma += rng.gamma(3.0);
    small_gamma += rng.gamma(0.3);
  }
  // Five standard errors.
  EXPECT_NEAR(uniform / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(normal / kDraws, 0.0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(normal2 / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(gamma / kDraws, 3.0, 5 * std::sqrt(3.0 / kDraws));
  EXPECT_NEAR(small_gamma / kDraws, 0.3, 5 * std::sqrt(0.3 / kDraws));
}

TEST(CounterRng, BelowIsUniformOverItsRange) {
  CounterRng rng({6, Purpose::kTest});
  std::array<int, 7> count{};
  for (int k = 0; k < 70000; ++k) {
    ++count[rng.below(7)];
  }
  for (const int c : count) {
    EXPECT_NEAR(c, 10000, 5 * std::sqrt(10000.0 * 6 / 7));
  }
}

TEST(CounterRng, SampleWithoutReplacement) {
  CounterRng rng({7, Purpose::kTest});
  const std::vector<int> sample = rng.sample_without_replacement(10, 4);
  EXPECT_EQ(sample.size(), 4U);
  EXPECT_EQ(std::set<int>(sample.begin(), sample.end()).size(), 4U);
  std::vector<int> all = rng.sample_without_replacement(10, 10);
  std::sort(all.begin(), all.end());
  std::vector<int> expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(CounterRng, DirichletMeans) {
  CounterRng rng({8, Purpose::kTest});
  const std::vector<double> alpha = {8.0, 1.0, 1.0};
  std::vector<double> mean(3, 0.0);
  for (int k = 0; k < 20000; ++k) {
    const std::vector<double> draw = rng.dirichlet(alpha);
    EXPECT_NEAR(draw[0] + draw[1] + draw[2], 1.0, 1e-12);
    for (std::size_t j = 0; j < 3; ++j) {
      mean[j] += draw[j] / 20000;
    }
  }
  EXPECT_NEAR(mean[0], 0.8, 0.005);
  EXPECT_NEAR(mean[1], 0.1, 0.005);
}

}  // namespace
}  // namespace apo
