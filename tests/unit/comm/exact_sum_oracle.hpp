#pragma once

/// @file
/// What exact_sum() promises, in integers of any width and without its code.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "apo/comm/exact_sum.hpp"

namespace apo::comm::testing {

using Terms = std::vector<std::vector<double>>;  ///< [term][element]
__extension__ using Wide = __int128;

/// Sum of doubles without any rounding: digits of 32 bits, the first of weight 2^-1074.
class Exact {
 public:
  void add(double x) {
    int exponent = 0;
    auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
    int place = exponent - 53 + 1074;
    if (place < 0) {  // denormal: the low bits are 0
      mantissa /= std::int64_t{1} << -place;
      place = 0;
    }
    const Wide shifted = static_cast<Wide>(mantissa) << (place % 32);
    const Wide sign = shifted < 0 ? -1 : 1;
    for (int d = 0; d < 3; ++d) {
      const auto digit = static_cast<std::int64_t>(((shifted * sign) >> (32 * d)) & 0xffffffff);
      digits_[static_cast<std::size_t>(place / 32 + d)] += static_cast<std::int64_t>(sign) * digit;
    }
  }

  /// Its absolute value, to some units in the last place.
  [[nodiscard]] double magnitude() const {
    const double value = std::abs(value_of(digits_));
    std::vector<std::int64_t> negative = digits_;
    std::transform(digits_.begin(), digits_.end(), negative.begin(), std::negate<>());
    return std::min(value, std::abs(value_of(negative)));  // -x has digits that cancel
  }

 private:
  static double value_of(std::vector<std::int64_t> digits) {
    for (std::size_t d = 0; d + 1 < digits.size(); ++d) {
      const std::int64_t low = digits[d] & 0xffffffff;
      digits[d + 1] += (digits[d] - low) / (std::int64_t{1} << 32);
      digits[d] = low;
    }
    if (digits.back() < 0) {
      return std::numeric_limits<double>::infinity();
    }
    double value = 0.0;
    for (std::size_t d = digits.size(); d-- > 0;) {
      value += std::ldexp(static_cast<double>(digits[d]), 32 * static_cast<int>(d) - 1074);
    }
    return value;
  }

  std::vector<std::int64_t> digits_ = std::vector<std::int64_t>(70, 0);
};

/// Blocks by the documentation: kExactSumBlock elements, none across a cut.
inline std::vector<std::pair<std::size_t, std::size_t>> blocks_of(std::size_t n,
                                                                  std::vector<std::size_t> cuts) {
  cuts.push_back(n);
  std::vector<std::pair<std::size_t, std::size_t>> blocks;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    while (begin < cut) {
      const std::size_t end = std::min(cut, begin + kExactSumBlock);
      blocks.emplace_back(begin, end);
      begin = end;
    }
  }
  return blocks;
}

/// What the documentation says, word by word, in wide integers. Finite terms.
struct Expected {
  std::vector<double> sum;
  std::vector<double> bound;  ///< of the error
};

inline Expected by_definition(const Terms& terms, std::size_t n, std::size_t max_terms,
                              const std::vector<std::size_t>& cuts = {}) {
  Expected expected{std::vector<double>(n, 0.0), std::vector<double>(n, 0.0)};
  int bits_of_terms = 0;
  while ((std::size_t{1} << bits_of_terms) < max_terms) {
    ++bits_of_terms;
  }
  const int b = std::min(51, 62 - bits_of_terms);
  for (const auto& [begin, end] : blocks_of(n, cuts)) {
    int e = -2000;
    for (const auto& term : terms) {
      for (std::size_t k = begin; k < end; ++k) {
        int exponent = 0;
        if (std::frexp(term[k], &exponent) != 0.0) {
          e = std::max(e, exponent);
        }
      }
    }
    if (e == -2000) {
      continue;
    }
    while (e % 4 != 0) {
      ++e;
    }
    for (std::size_t k = begin; k < end; ++k) {
      Wide sum = 0;
      Exact exact;
      int present = 0;
      for (const auto& term : terms) {
        const long double multiple = std::ldexp(static_cast<long double>(term[k]), b - e);
        sum += static_cast<Wide>(std::nearbyint(multiple));
        exact.add(term[k]);
        present += term[k] != 0.0 ? 1 : 0;
      }
      EXPECT_EQ(static_cast<std::int64_t>(sum), sum);
      const auto rounded = static_cast<double>(static_cast<std::int64_t>(sum));
      expected.sum[k] = std::ldexp(rounded, e - b);
      expected.bound[k] =
          0.5 * present * std::ldexp(1.0, e - b) + std::ldexp(exact.magnitude(), -53);
    }
  }
  return expected;
}

}  // namespace apo::comm::testing
