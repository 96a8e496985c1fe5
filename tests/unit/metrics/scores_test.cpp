#include "apo/metrics/scores.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::metrics {
namespace {

using Vector = std::vector<double>;

TEST(Scores, NormalisesByFrozenRanges) {
  const std::vector<Vector> all{{1, 10, 3}, {3, -10, 3}, {2, 0, 3}};
  const auto range = score_ranges(all);
  EXPECT_EQ(range[0].low, 1);
  EXPECT_EQ(range[0].high, 3);
  EXPECT_EQ(range[1].low, -10);
  EXPECT_EQ(range[1].high, 10);
  const auto inside = normalise(Vector{2.5, 5, 3}, range);
  EXPECT_EQ(inside.value, (Vector{.75, .75, .5}));
  EXPECT_EQ(inside.num_clipped, 0);
  EXPECT_EQ(inside.num_zero_range, 1);
  const auto outside = normalise(Vector{0, 11, 4}, range);
  EXPECT_EQ(outside.value, (Vector{0, 1, .5}));
  EXPECT_EQ(outside.num_clipped, 3);
}

TEST(Scores, PreferenceWeighted) {
  EXPECT_DOUBLE_EQ(preference_weighted(Vector{.5, 1, 0}, Vector{.2, .3, .5}), .4);
  EXPECT_DOUBLE_EQ(preference_weighted(Vector{.5, 1}, Vector{0, 1}), 1.0);
}

TEST(Scores, StudentQuantilesOfPrintedTables) {
  EXPECT_NEAR(student_t_quantile(.975, 1), std::tan(.475 * std::acos(-1.0)), 1e-11);  // Cauchy
  EXPECT_NEAR(student_t_quantile(.975, 2), 4.30265272974946, 1e-12);
  EXPECT_NEAR(student_t_quantile(.975, 10), 2.22813885198627, 1e-12);
  EXPECT_NEAR(student_t_quantile(.975, 30), 2.04227245630124, 1e-12);
  EXPECT_NEAR(student_t_quantile(.995, 4), 4.60409487134999, 1e-12);
  EXPECT_NEAR(student_t_quantile(.025, 10), -2.22813885198627, 1e-12);
  EXPECT_EQ(student_t_quantile(.5, 3), 0.0);
}

TEST(Scores, MeanIntervals) {
  // mean 5, standard deviation sqrt(32 / 7), n = 8
  const auto interval = mean_interval(Vector{2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_DOUBLE_EQ(interval.mean, 5.0);
  EXPECT_EQ(interval.count, 8);
  EXPECT_NEAR(interval.half_width, 2.36462425159278 * std::sqrt(32.0 / 7.0 / 8.0), 1e-12);
  EXPECT_NEAR(interval.low() + interval.high(), 10.0, 1e-14);
  EXPECT_TRUE(std::isinf(mean_interval(Vector{3}).half_width));
  EXPECT_EQ(mean_interval(Vector{3, 3, 3}).half_width, 0.0);
  EXPECT_LT(mean_interval(Vector{1, 2, 4}, .5).half_width,
            mean_interval(Vector{1, 2, 4}, .9).half_width);
}

TEST(Scores, PairedDifferences) {
  const auto paired = paired_difference(Vector{10, 21, 32}, Vector{9, 19, 29});
  EXPECT_DOUBLE_EQ(paired.mean, 2.0);
  EXPECT_NEAR(paired.half_width, 4.30265272974946 / std::sqrt(3.0), 1e-12);
}

TEST(Scores, RefusesBadInput) {
  const std::vector<ScoreRange> range{{0, 1}, {0, 1}};
  const std::vector<ScoreRange> turned{{1, 0}, {0, 1}};
  EXPECT_THROW(static_cast<void>(normalise(Vector{1}, range)), Error);
  EXPECT_THROW(static_cast<void>(normalise(Vector{1, std::nan("")}, range)), Error);
  EXPECT_THROW(static_cast<void>(normalise(Vector{.5, .5}, turned)), Error);
  EXPECT_THROW(static_cast<void>(score_ranges({})), Error);
  EXPECT_THROW(static_cast<void>(score_ranges(std::vector<Vector>{{1, 2}, {1}})), Error);
  EXPECT_THROW(static_cast<void>(preference_weighted(Vector{1}, Vector{.5, .5})), Error);
  EXPECT_THROW(static_cast<void>(mean_interval({})), Error);
  EXPECT_THROW(static_cast<void>(mean_interval(Vector{1, 2}, 1.0)), Error);
  EXPECT_THROW(static_cast<void>(paired_difference(Vector{1, 2}, Vector{1})), Error);
}

}  // namespace
}  // namespace apo::metrics
