#include <cmath>

#include <gtest/gtest.h>

#include "apo/clustering/clustering.hpp"
#include "apo/core/error.hpp"

namespace apo::clustering {
namespace {

using Vector = std::vector<double>;
using Order = std::vector<int>;

TEST(BottleneckOrder, DescendingWeightedLoss) {
  EXPECT_EQ(bottleneck_order(Vector{.6, .4, .9}, Vector{.5, .3, .2}), (Order{0, 2, 1}));
  EXPECT_EQ(bottleneck_order(Vector{1, 1}, Vector{.3, .7}), (Order{1, 0}));
  EXPECT_EQ(bottleneck_order(Vector{2}, Vector{1}), (Order{0}));
}

TEST(BottleneckOrder, TiesGoToTheLowerIndexEvenWithRounding) {
  EXPECT_EQ(bottleneck_order(Vector{1, 1, 1}, Vector{.3, .4, .3}), (Order{1, 0, 2}));
  // 0.1 * 3 exceeds 0.3 in the last bit; after quantising both are equal.
  ASSERT_GT(.1 * 3.0, .3 * 1.0);
  EXPECT_EQ(bottleneck_order(Vector{1.0, 3.0}, Vector{.3, .1}), (Order{0, 1}));
  EXPECT_EQ(bottleneck_order(Vector{1.0, 1.0 + 1e-11}, Vector{.5, .5}), (Order{1, 0}));
}

TEST(BottleneckOrder, ZeroPreferenceComesLast) {
  EXPECT_EQ(bottleneck_order(Vector{1, 1e-200, 5}, Vector{.5, .5, 0}), (Order{0, 1, 2}));
}

TEST(BottleneckOrder, RefusesBadInput) {
  EXPECT_THROW(static_cast<void>(bottleneck_order(Vector{1}, Vector{.5, .5})), Error);
  EXPECT_THROW(static_cast<void>(bottleneck_order(Vector{}, Vector{})), Error);
  EXPECT_THROW(static_cast<void>(bottleneck_order(Vector{std::nan(""), 1}, Vector{.5, .5})), Error);
  EXPECT_THROW(static_cast<void>(bottleneck_order(Vector{-1, 1}, Vector{.5, .5})), Error);
}

}  // namespace
}  // namespace apo::clustering
