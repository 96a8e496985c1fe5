#include "apo/core/bytes.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace apo {
namespace {

TEST(Bytes, ThereAndBack) {
  const std::vector<double> numbers = {0.0, -0.0, 1.5, -1e300,
                                       std::numeric_limits<double>::infinity()};
  const std::string bytes = to_bytes(std::span<const double>(numbers));
  EXPECT_EQ(bytes.size(), numbers.size() * sizeof(double));
  const std::vector<double> back = from_bytes<double>(bytes);
  ASSERT_EQ(back, numbers);
  EXPECT_TRUE(std::signbit(back[1]));
  const std::vector<std::int8_t> small = {1, -1, 127};
  EXPECT_EQ(from_bytes<std::int8_t>(to_bytes(std::span<const std::int8_t>(small))), small);
}

TEST(Bytes, NothingIsNothing) {
  EXPECT_TRUE(to_bytes(std::span<const float>()).empty());
  EXPECT_TRUE(from_bytes<float>("").empty());
}

TEST(Bytes, ARestOfLessThanANumberIsDropped) {
  std::string bytes = to_bytes(std::span<const float>(std::vector<float>{2.5F, 3.5F}));
  bytes.pop_back();
  EXPECT_EQ(from_bytes<float>(bytes), std::vector<float>{2.5F});
}

}  // namespace
}  // namespace apo
