#include "apo/comm/exact_sum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cluster_impl.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::comm {
namespace {

// Adding this constant to |x| <= 2^51 rounds x to an integer, ties to even, and leaves it in the
// low bits of the sum: 1.5 * 2^52. Unlike a conversion, compilers vectorise it.
constexpr double kRounder = 6755399441055744.0;
constexpr int kRounderBits = 51;
// Sums of at most 2^62 leave a bit for the sign and one for rounding up.
constexpr int kSumBits = 62;

/// Terms of a block that are kept between their two uses: 256 KiB, to stay in a core's cache.
constexpr std::size_t kKeptTerms = 32;

// Exponents that stand for something else; in the order of Reduction::kMax.
constexpr std::int64_t kAllZero = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kNotFinite = std::numeric_limits<std::int64_t>::max();

/// Whole blocks, so that loops have a constant length; what is behind a short block is 0.
using Numbers = std::array<double, kExactSumBlock>;
using Integers = std::array<std::uint64_t, kExactSumBlock>;  // unsigned: it may wrap around

struct Block {
  std::size_t begin = 0;
  std::size_t count = 0;
};

std::vector<Block> blocks_between(std::size_t size, std::span<const std::size_t> cuts) {
  std::vector<Block> blocks;
  std::size_t begin = 0;
  const auto fill_to = [&](std::size_t end) {
    expects(begin <= end && end <= size,
            fmt::format("exact_sum: a cut at {} behind {}, expected ascending positions in 0 .. {}",
                        end, begin, size));
    for (; begin < end; begin += blocks.back().count) {
      blocks.push_back({begin, std::min(kExactSumBlock, end - begin)});
    }
  };
  for (const std::size_t cut : cuts) {
    fill_to(cut);
  }
  fill_to(size);
  return blocks;
}

// The loops over a block once more for processors with wider vectors, chosen when the program is
// loaded. Their results are the same: nothing in them is rounded otherwise (no fused multiply-add).
// Sanitizers are not ready yet when that choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define APO_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define APO_WIDE_VECTORS
#endif

/// The next multiple of the step, so that ranks mostly find the same exponent and are spared a
/// second pass over their terms.
std::int64_t coarse(int exponent) {
  constexpr int kStep = 4;
  constexpr int kOffset = 1200;  // keeps what is divided positive
  return (exponent + kOffset + kStep - 1) / kStep * kStep - kOffset;
}

/// The smallest multiple of 4, e, with |x| < 2^e for all x; or kAllZero or kNotFinite.
APO_WIDE_VECTORS std::int64_t exponent_of(const Numbers& numbers) {
  // In a double's upper half: the sign, 11 bits of the exponent, 20 of the fraction.
  constexpr int kHalf = 32;
  constexpr int kFraction = 20;
  constexpr int kNotFiniteField = 0x7ff;
  constexpr int kBias = 1022;  // 1 has field 1023 and is below 2^1
  std::int32_t largest = 0;
  for (const double x : numbers) {
    const auto high = static_cast<std::int32_t>(std::bit_cast<std::uint64_t>(x) >> kHalf);
    largest = std::max(largest, high & std::numeric_limits<std::int32_t>::max());
  }
  const std::int32_t field = largest >> kFraction;
  if (field > 0) {
    return field == kNotFiniteField ? kNotFinite : coarse(field - kBias);
  }
  // Denormal numbers are multiples of 2^-1074, and their bits are the factors.
  constexpr int kSmallest = -1074;
  std::uint64_t any = 0;
  for (const double x : numbers) {
    any |= std::bit_cast<std::uint64_t>(std::abs(x));
  }
  return any == 0 ? kAllZero : coarse(kSmallest + static_cast<int>(std::bit_width(any)));
}

/// Multiplication by 2^shift, |shift| <= 1126, in two factors: 2^shift may be no double. Only a
/// result near 0 or infinity is rounded.
struct PowerOfTwo {
  explicit PowerOfTwo(int shift)
      : first(std::ldexp(1.0, shift / 2)), second(std::ldexp(1.0, shift - shift / 2)) {}
  [[nodiscard]] double times(double x) const { return x * first * second; }
  double first;
  double second;
};

APO_WIDE_VECTORS void add_rounded(const Numbers& numbers, const PowerOfTwo& scale,
                                  Integers& integers) {
  for (std::size_t k = 0; k < kExactSumBlock; ++k) {
    integers[k] += std::bit_cast<std::uint64_t>(scale.times(numbers[k]) + kRounder) -
                   std::bit_cast<std::uint64_t>(kRounder);
  }
}

/// double(n) without a conversion, for compilers to vectorise: the halves of n lie in the low bits
/// of doubles of a fixed exponent, and their sum is rounded once.
double to_double(std::uint64_t n) {
  constexpr std::uint64_t kLow = 0x4330000000000000;   // 2^52 + low half
  constexpr std::uint64_t kHigh = 0x4530000080000000;  // 2^84 + 2^32 (high half + 2^31)
  constexpr double kOffset = 0x1p84 + 0x1p63 + 0x1p52;
  constexpr std::uint64_t kHalfMask = 0xffffffff;
  return (std::bit_cast<double>((n >> 32U) ^ kHigh) - kOffset) +
         std::bit_cast<double>((n & kHalfMask) | kLow);
}

APO_WIDE_VECTORS void convert_block(const PowerOfTwo& unit, Integers& integers, Numbers& numbers) {
  for (std::size_t k = 0; k < kExactSumBlock; ++k) {
    numbers[k] = unit.times(to_double(integers[k]));
  }
}

/// One call of exact_sum().
class Sum {
 public:
  Sum(std::span<double> sum, std::size_t num_terms, std::size_t max_terms, const AddTerm& add,
      std::span<const std::size_t> cuts)
      : sum_(sum),
        num_terms_(num_terms),
        max_terms_(max_terms),
        add_(add),
        blocks_(blocks_between(sum.size(), cuts)),
        exponents_(blocks_.size(), kAllZero),
        kept_(std::min(num_terms, kKeptTerms)) {}

  void run(ClusterCommunicator& team) {
    Failure failure;
    failure.capture([&] {
      expects(max_terms_ >= 1 && max_terms_ <= kExactSumMaxTerms && num_terms_ <= max_terms_,
              fmt::format("exact_sum: {} terms here, at most {} on all ranks; expected a bound in "
                          "1 .. {} that holds",
                          num_terms_, max_terms_, kExactSumMaxTerms));
      look_at_terms();
    });
    const std::vector<std::int64_t> own = exponents_;
    agree_on_exponents(team, failure);
    failure.capture([&] { round_again(own); });
    // The integers lie where the sum will: nobody looks at them as doubles, or at the sum as
    // integers, but through their bits.
    team.all_reduce(
        std::span<std::int64_t>(reinterpret_cast<std::int64_t*>(sum_.data()), sum_.size()),
        Reduction::kSum);
    std::array<std::int64_t, 2> facts = {static_cast<std::int64_t>(num_terms_),
                                         failure.any() ? 1 : 0};
    team.all_reduce(std::span<std::int64_t>(facts), Reduction::kSum);
    if (facts[1] > 0) {
      team.agree_or_throw(failure.text, static_cast<int>(failure.fault));
    }
    expects(facts[0] <= static_cast<std::int64_t>(max_terms_),
            fmt::format("exact_sum: the ranks have {} terms, expected at most {}", facts[0],
                        max_terms_));
    convert();
  }

 private:
  [[nodiscard]] bool keeps_terms() const { return num_terms_ <= kKeptTerms; }

  /// One term's numbers in a block.
  void compute(std::size_t term, const Block& block, Numbers& numbers) const {
    numbers.fill(0.0);
    add_(term, block.begin, std::span<double>(numbers.data(), block.count));
  }

  /// The exponents of this rank's terms. Rounds the terms by them too while they are at hand: with
  /// luck, the other ranks' are no larger.
  void look_at_terms() {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      for (std::size_t t = 0; t < num_terms_; ++t) {
        Numbers& numbers = kept_[keeps_terms() ? t : 0];
        compute(t, blocks_[b], numbers);
        exponents_[b] = std::max(exponents_[b], exponent_of(numbers));
      }
      if (keeps_terms()) {
        round_terms(b, [](std::size_t) {});
      }
    }
  }

  /// Rounds where it has not been done, or by an exponent that is not the team's.
  void round_again(std::span<const std::int64_t> own) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const bool is_done = keeps_terms() && (own[b] == exponents_[b] || own[b] == kAllZero);
      if (!is_done) {
        round_terms(b,
                    [&](std::size_t t) { compute(t, blocks_[b], kept_[keeps_terms() ? t : 0]); });
      }
    }
  }

  /// Overwrites sum_ by this rank's integers. @param fetch  puts a term into kept_
  template <class Fetch>
  void round_terms(std::size_t b, const Fetch& fetch) {
    integers_.fill(0);
    if (has_unit(b)) {
      const PowerOfTwo scale(shift_of(b));
      for (std::size_t t = 0; t < num_terms_; ++t) {
        fetch(t);
        add_rounded(kept_[keeps_terms() ? t : 0], scale, integers_);
      }
    }
    std::memcpy(&sum_[blocks_[b].begin], integers_.data(), blocks_[b].count * sizeof(double));
  }

  /// Throws on all ranks where `failure` is one on any.
  void agree_on_exponents(ClusterCommunicator& team, const Failure& failure) {
    // What has to be known beside them travels along.
    const auto bound = static_cast<std::int64_t>(max_terms_);
    exponents_.insert(exponents_.end(), {bound, -bound, failure.any() ? 1 : 0});
    team.all_reduce(std::span<std::int64_t>(exponents_), Reduction::kMax);
    const std::span<const std::int64_t> facts = std::span(exponents_).last(3);
    if (facts[2] > 0) {
      team.agree_or_throw(failure.text, static_cast<int>(failure.fault));
    }
    expects(facts[0] == -facts[1],
            fmt::format("exact_sum: the bound on the terms is {} on one rank and {} on another, "
                        "expected the same on all",
                        -facts[1], facts[0]));
    exponents_.resize(blocks_.size());
  }

  [[nodiscard]] bool has_unit(std::size_t block) const {
    return exponents_[block] != kAllZero && exponents_[block] != kNotFinite;
  }

  /// 1 / u = 2^shift.
  [[nodiscard]] int shift_of(std::size_t block) const {
    const int term_bits =
        std::min(kRounderBits, kSumBits - static_cast<int>(std::bit_width(max_terms_ - 1)));
    return term_bits - static_cast<int>(exponents_[block]);
  }

  void convert() {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const std::span<double> out = sum_.subspan(blocks_[b].begin, blocks_[b].count);
      if (!has_unit(b)) {
        std::fill(out.begin(), out.end(),
                  exponents_[b] == kAllZero ? 0.0 : std::numeric_limits<double>::quiet_NaN());
        continue;
      }
      std::memcpy(integers_.data(), out.data(), out.size_bytes());
      convert_block(PowerOfTwo(-shift_of(b)), integers_, numbers_);
      std::memcpy(out.data(), numbers_.data(), out.size_bytes());
    }
  }

  std::span<double> sum_;
  std::size_t num_terms_;
  std::size_t max_terms_;
  const AddTerm& add_;
  std::vector<Block> blocks_;
  std::vector<std::int64_t> exponents_;  ///< of this rank's terms, then of the team's
  std::vector<Numbers> kept_;            ///< this rank's terms in the current block
  Integers integers_{};
  Numbers numbers_{};
};

}  // namespace

void exact_sum(ClusterCommunicator& team, std::span<double> sum, std::size_t num_terms,
               std::size_t max_terms, const AddTerm& add, std::span<const std::size_t> cuts) {
  Sum(sum, num_terms, max_terms, add, cuts).run(team);
}

}  // namespace apo::comm
