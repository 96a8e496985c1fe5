#include "apo/comm/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "exact_sum_oracle.hpp"
#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

#include "apo/core/rng.hpp"

namespace apo::comm {
namespace {

using test::world;
using Terms = testing::Terms;
using testing::by_definition;
using testing::Exact;
using testing::Expected;
/// The terms of this rank, in its order.
using Share = std::vector<std::size_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kDenormal = std::numeric_limits<double>::denorm_min();

std::vector<double> sum_of(const Terms& terms, const Share& mine, std::size_t n,
                           std::size_t max_terms, const Share& cuts = {}) {
  std::vector<double> sum(n, std::nan(""));  // what is in it must not matter
  exact_sum(
      world().all(), sum, mine.size(), max_terms,
      [&](std::size_t t, std::size_t begin, std::span<double> slice) {
        const std::vector<double>& term = terms[mine[t]];
        for (std::size_t k = 0; k < slice.size(); ++k) {
          EXPECT_EQ(slice[k], 0.0);
          slice[k] += term[begin + k];
        }
      },
      cuts);
  return sum;
}

/// Term t goes to rank owner(t).
template <class Owner>
Share share(std::size_t num_terms, const Owner& owner) {
  Share mine;
  for (std::size_t t = 0; t < num_terms; ++t) {
    if (owner(t) == static_cast<std::size_t>(world().rank())) {
      mine.push_back(t);
    }
  }
  return mine;
}

Share round_robin(std::size_t num_terms) {
  return share(num_terms,
               [](std::size_t t) { return t % static_cast<std::size_t>(world().size()); });
}

void expect_same_bits(std::span<const double> a, std::span<const double> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(std::memcmp(&a[k], &b[k], sizeof(double)), 0)
        << "element " << k << ": " << a[k] << " and " << b[k];
  }
}

void expect_within(std::span<const double> sum, const Terms& terms, const Expected& expected) {
  for (std::size_t k = 0; k < sum.size(); ++k) {
    Exact error;
    for (const auto& term : terms) {
      error.add(term[k]);
    }
    error.add(-sum[k]);
    ASSERT_LE(error.magnitude(), expected.bound[k] * (1.0 + 1e-12)) << "element " << k;
  }
}

/// Numbers over `decades` decades, so that the order of additions shows in the bits of a plain sum.
Terms wide_terms(std::size_t num_terms, std::size_t n, int decades) {
  Terms terms(num_terms, std::vector<double>(n));
  for (std::size_t t = 0; t < num_terms; ++t) {
    CounterRng rng({7, Purpose::kTest, t, 0, 0});
    for (double& x : terms[t]) {
      x = rng.normal() *
          std::pow(10.0, static_cast<double>(rng.below(static_cast<std::uint64_t>(decades))) - 6.0);
    }
  }
  return terms;
}

std::vector<double> plain_sum(const Terms& terms, const Share& order) {
  std::vector<double> sum(terms[0].size(), 0.0);
  for (const std::size_t t : order) {
    for (std::size_t k = 0; k < sum.size(); ++k) {
      sum[k] += terms[t][k];
    }
  }
  return sum;
}

void check(const Terms& terms, std::size_t n, std::size_t max_terms) {
  const Expected expected = by_definition(terms, n, max_terms);
  const std::vector<double> sum = sum_of(terms, round_robin(terms.size()), n, max_terms);
  expect_same_bits(sum, expected.sum);
  expect_within(sum, terms, expected);
}

TEST(ExactSum, SameBitsForAnyPlacementAndOrder) {
  constexpr std::size_t kTerms = 25;
  const auto ranks = static_cast<std::size_t>(world().size());
  for (const std::size_t n : {std::size_t{1}, kExactSumBlock - 1, kExactSumBlock,
                              kExactSumBlock + 1, 3 * kExactSumBlock + 17}) {
    const Terms terms = wide_terms(kTerms, n, 14);
    const Expected expected = by_definition(terms, n, kTerms);
    std::vector<Share> shares = {
        round_robin(kTerms),
        share(kTerms, [&](std::size_t t) { return t * ranks / kTerms; }),
        share(kTerms, [&](std::size_t t) { return (t * t + 3) % ranks; }),
        share(kTerms, [&](std::size_t t) { return t == 4 ? ranks - 1 : std::size_t{0}; }),
    };
    for (std::size_t owner = 0; owner < ranks; ++owner) {  // the others are empty
      shares.push_back(share(kTerms, [&](std::size_t) { return owner; }));
    }
    for (Share& mine : shares) {
      expect_same_bits(sum_of(terms, mine, n, kTerms), expected.sum);
      std::reverse(mine.begin(), mine.end());
      expect_same_bits(sum_of(terms, mine, n, kTerms), expected.sum);
    }
    expect_within(expected.sum, terms, expected);
  }
}

TEST(ExactSum, TheTermsWouldShowAnotherOrder) {
  const Terms terms = wide_terms(25, 1000, 14);
  Share order(terms.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<double> forward = plain_sum(terms, order);
  std::reverse(order.begin(), order.end());
  const std::vector<double> backward = plain_sum(terms, order);
  EXPECT_NE(std::memcmp(forward.data(), backward.data(), forward.size() * sizeof(double)), 0);
}

TEST(ExactSum, SameBitsWhenOneRankHasManyTerms) {
  const Terms terms = wide_terms(70, kExactSumBlock + 3, 14);
  const Expected expected = by_definition(terms, kExactSumBlock + 3, 70);
  for (const std::size_t modulus : {std::size_t{1}, std::size_t{2}, std::size_t{35}}) {
    const Share mine = share(70, [&](std::size_t t) {
      return t % modulus == 0 ? std::size_t{0} : t % static_cast<std::size_t>(world().size());
    });
    expect_same_bits(sum_of(terms, mine, kExactSumBlock + 3, 70), expected.sum);
  }
}

TEST(ExactSum, StaysWithinItsBoundOverManyDecades) {
  for (const int decades : {1, 13, 30, 200}) {
    check(wide_terms(17, 2 * kExactSumBlock + 5, decades), 2 * kExactSumBlock + 5, 40);
  }
}

TEST(ExactSum, TheBoundOnTheTermsCostsBitsOnlyWhereItIsLarge) {
  const Terms terms = wide_terms(9, 700, 13);
  for (const std::size_t max_terms :
       {std::size_t{9}, std::size_t{2048}, std::size_t{2049}, kExactSumMaxTerms}) {
    check(terms, 700, max_terms);
  }
  expect_same_bits(sum_of(terms, round_robin(9), 700, 9), sum_of(terms, round_robin(9), 700, 2048));
}

TEST(ExactSum, ManyLargeTermsDoNotOverflow) {
  for (const std::size_t max_terms : {std::size_t{5000}, std::size_t{8192}, kExactSumMaxTerms}) {
    Terms terms(5000, std::vector<double>(3));
    for (std::size_t t = 0; t < terms.size(); ++t) {
      terms[t] = {std::nextafter(2.0, 0.0), -std::nextafter(2.0, 0.0), t % 2 == 0 ? 1.0 : -1.0};
    }
    check(terms, 3, max_terms);
  }
}

TEST(ExactSum, WholeNumbersAndShortFractionsAreExact) {
  Terms terms(12, std::vector<double>(500));
  std::vector<double> expected(500, 0.0);
  for (std::size_t t = 0; t < terms.size(); ++t) {
    for (std::size_t k = 0; k < 500; ++k) {
      const double x = static_cast<double>(t * 1000 + k) * 0.125 - 700.0;
      terms[t][k] = x;
      expected[k] += x;
    }
  }
  expect_same_bits(sum_of(terms, round_robin(12), 500, 12), expected);
}

TEST(ExactSum, SpecialNumbers) {
  const double tiny = std::numeric_limits<double>::min();
  // Each row is a block of its own size, so that its exponent is its own.
  const std::vector<Terms> cases = {
      {{kDenormal, -kDenormal, 0.0}, {kDenormal, kDenormal, kDenormal}},
      {{kDenormal, -kDenormal, 3 * kDenormal}, {kDenormal, kDenormal, -5 * kDenormal}},
      {{kDenormal, tiny, -tiny}, {tiny, tiny, kDenormal}},
      {{tiny / 2, 1e-310, 0.0}, {tiny / 4, -2e-310, -0.0}},
      {{0.0, -0.0, 0.0}, {-0.0, -0.0, 0.0}},
      {{kLargest, -kLargest, kLargest / 2}, {-kLargest, kLargest / 4, kLargest / 4}},
      {{kLargest, 1.0, kDenormal}, {-kLargest, 1e290, -kDenormal}},
      {{1e300, 1.0, -1e300}, {-1e300, 1e-300, -2e300}},
      {{1.0, 1e-15, -1.0}, {-1.0, 1e-16, 1e-17}},
  };
  for (const Terms& terms : cases) {
    check(terms, 3, 2);
  }
  const Terms overflowing = {{kLargest, -kLargest}, {kLargest, -kLargest}};
  const std::vector<double> sum = sum_of(overflowing, round_robin(2), 2, 2);
  EXPECT_EQ(sum[0], kInfinity);
  EXPECT_EQ(sum[1], -kInfinity);
}

TEST(ExactSum, ANumberThatIsNotFiniteSpoilsItsBlockOnAllRanks) {
  const std::size_t n = 3 * kExactSumBlock;
  for (const double bad : {std::nan(""), kInfinity, -kInfinity}) {
    for (int owner = 0; owner < world().size(); ++owner) {
      Terms terms = wide_terms(2 * static_cast<std::size_t>(world().size()), n, 13);
      const Expected expected = by_definition(terms, n, 20);
      terms[static_cast<std::size_t>(owner)][kExactSumBlock + 9] = bad;
      const std::vector<double> sum = sum_of(terms, round_robin(terms.size()), n, 20);
      const std::span<const double> all(sum);
      const std::span<const double> good(expected.sum);
      expect_same_bits(all.first(kExactSumBlock), good.first(kExactSumBlock));
      expect_same_bits(all.last(kExactSumBlock), good.last(kExactSumBlock));
      for (const double x : all.subspan(kExactSumBlock, kExactSumBlock)) {
        ASSERT_TRUE(std::isnan(x));
      }
    }
  }
}

TEST(ExactSum, NothingToAdd) {
  EXPECT_TRUE(sum_of({}, {}, 0, 1).empty());
  EXPECT_TRUE(sum_of({{}}, round_robin(1), 0, 1).empty());
  expect_same_bits(sum_of({}, {}, 1500, 8), std::vector<double>(1500, 0.0));
}

TEST(ExactSum, CutsKeepSmallNumbersFromLargeNeighbours) {
  const Share cuts = {0, 5, 5, kExactSumBlock + 30};
  const std::size_t n = 2 * kExactSumBlock + 100;
  Terms terms = wide_terms(6, n, 3);
  for (auto& term : terms) {
    for (std::size_t k = 0; k < 5; ++k) {
      term[k] *= 1e-20;
    }
    for (std::size_t k = kExactSumBlock + 30; k < n; ++k) {
      term[k] *= 1e20;
    }
  }
  const Expected cut = by_definition(terms, n, 6, cuts);
  const std::vector<double> sum = sum_of(terms, round_robin(6), n, 6, cuts);
  expect_same_bits(sum, cut.sum);
  expect_within(sum, terms, cut);
  const std::vector<double> uncut = sum_of(terms, round_robin(6), n, 6);
  for (std::size_t k = 0; k < 5; ++k) {
    EXPECT_LT(cut.bound[k], 1e-10 * std::abs(sum[k]));
    EXPECT_EQ(uncut[k], 0.0) << "less than half a unit beside its neighbours";
  }
  for (const Share& wrong : {Share{4, 3}, Share{n + 1}}) {
    EXPECT_THROW((void)sum_of(terms, round_robin(6), n, 6, wrong), Error);
  }
}

/// How often each element is asked for on this rank. @param mine  this rank's terms, all alike
std::vector<int> calls_for(std::size_t num_terms, std::size_t n, double mine, double expected) {
  std::vector<int> calls(n, 0);
  std::vector<double> sum(n);
  exact_sum(world().all(), sum, num_terms, num_terms * static_cast<std::size_t>(world().size()),
            [&](std::size_t term, std::size_t begin, std::span<double> slice) {
              ASSERT_LT(term, num_terms);
              for (std::size_t k = 0; k < slice.size(); ++k) {
                slice[k] = mine;
                ++calls[begin + k];
              }
            });
  EXPECT_EQ(sum, std::vector<double>(n, expected));
  return calls;
}

TEST(ExactSum, TermsAreComputedAgainOnlyWhereAnotherRankHasLargerOnes) {
  const std::size_t n = 2 * kExactSumBlock + 7;
  const int size = world().size();
  const bool is_last = world().rank() + 1 == size;
  EXPECT_EQ(calls_for(2, n, 1.0, 2.0 * size), std::vector<int>(n, 2));
  // 1 and 15 are below the same power of 16; 16 is not.
  EXPECT_EQ(calls_for(2, n, is_last ? 15.0 : 1.0, 2.0 * (size + 14)), std::vector<int>(n, 2));
  EXPECT_EQ(calls_for(2, n, is_last ? 16.0 : 1.0, 2.0 * (size + 15)),
            std::vector<int>(n, is_last ? 2 : 4));
  EXPECT_EQ(calls_for(40, n, 1.0, 40.0 * size), std::vector<int>(n, 80));  // more than are kept
}

/// Runs f; its Error's fault and text.
template <class F>
std::pair<Fault, std::string> thrown_by(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return {error.fault(), error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Fault::kInternal, ""};
}

void expect_still_usable() { check(wide_terms(6, 50, 13), 50, 6); }

TEST(ExactSum, AnExceptionOnOneRankIsThrownOnAll) {
  const std::size_t n = 2 * kExactSumBlock + 5;
  constexpr std::size_t kTerms = 40;  // too many to be kept: all are computed twice
  constexpr int kCalls = 2 * 3 * static_cast<int>(kTerms);  // three blocks
  for (int failing = 0; failing < world().size(); ++failing) {
    for (const int failing_call : {1, 50, kCalls / 2 + 1, kCalls}) {
      std::vector<double> sum(n);
      int call = 0;
      const auto [fault, text] = thrown_by([&] {
        exact_sum(world().all(), sum, kTerms, 1000,
                  [&](std::size_t, std::size_t, std::span<double> slice) {
                    std::fill(slice.begin(), slice.end(), 1.0);
                    if (++call == failing_call && world().rank() == failing) {
                      throw Error(Fault::kData, "no adapter for client 12");
                    }
                  });
      });
      EXPECT_EQ(fault, Fault::kData);
      EXPECT_NE(text.find("no adapter for client 12"), std::string::npos) << text;
      expect_still_usable();
    }
  }
}

TEST(ExactSum, BoundsThatAreWrongAreNamedOnAllRanks) {
  const auto run = [](std::size_t num_terms, std::size_t max_terms) {
    return thrown_by([&] {
      std::vector<double> sum(10);
      exact_sum(world().all(), sum, num_terms, max_terms,
                [](std::size_t, std::size_t, std::span<double> slice) { slice[0] = 1.0; });
    });
  };
  const auto size = static_cast<std::size_t>(world().size());
  for (const auto& [num_terms, max_terms] :
       {std::pair<std::size_t, std::size_t>{0, 0}, {1, kExactSumMaxTerms + 1}, {3, 2}}) {
    const auto [fault, text] = run(num_terms, max_terms);
    EXPECT_EQ(fault, Fault::kInternal);
    EXPECT_NE(text.find("expected a bound in 1 .. 1048576"), std::string::npos) << text;
  }
  if (size > 1) {  // only the last rank breaks its word
    const bool last = world().rank() + 1 == world().size();
    EXPECT_NE(run(last ? 5 : 0, 4).second.find("5 terms here"), std::string::npos);
    const std::string different = run(1, last ? 64 : 32).second;
    EXPECT_NE(different.find("is 32 on one rank and 64 on another"), std::string::npos)
        << different;
    const std::string exceeded = run(2, 2 * size - 1).second;
    EXPECT_NE(exceeded.find("the ranks have " + std::to_string(2 * size) + " terms"),
              std::string::npos)
        << exceeded;
  }
  expect_still_usable();
}

TEST(ExactSum, OnePayloadTravels) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kMpi);
  std::vector<double> sum(2 * kExactSumBlock);
  exact_sum(team, sum, 0, 1, [](std::size_t, std::size_t, std::span<double>) {});
  // Integers; two exponents and three facts; two facts at the end.
  EXPECT_EQ(team.bytes_moved(), static_cast<std::int64_t>(8 * sum.size() + 8 * 5 + 8 * 2));
  team.close();
}

}  // namespace
}  // namespace apo::comm
