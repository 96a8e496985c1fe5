/// @file
/// The table of algorithms.md 1.5: which of the paper's statements the linear program guarantees,
/// measured on ensembles.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "polytope_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using test::Ensemble;
using test::Vector;

constexpr int kInstances = 4000;

struct Frequencies {
  int gamma_not_positive = 0;          // against property (b): d'd_bal > 0 whenever beta > 0
  int no_aligned = 0;                  // J empty
  int no_aligned_gamma_positive = 0;   // impossible
  int aligned_gamma_not_positive = 0;  // rare
  int protected_falls_below = 0;       // (48) for j outside J \ J*: impossible
  int free_falls_below = 0;            // (48) for j in J \ J*: not guaranteed for m >= 3
  int bottleneck_rises = 0;            // (4c): impossible
  int free_rises = 0;                  // ascending j in J
  double worst = 0.0;                  // largest -d'g_j / (||d_bal|| B)
};

Frequencies measure(Ensemble ensemble, int m, std::uint64_t seed) {
  DirectionOptions options;
  options.beta_tolerance = 1e-10;
  options.ascent_tolerance = 1e-12;
  const auto solver = make_solver(options);
  CounterRng rng({.seed = seed});
  Frequencies count;
  for (int k = 0; k < kInstances; ++k) {
    const auto x = test::draw(rng, m, ensemble, false);
    const Direction found = solver->solve({x.loss, x.gram, x.preference});
    const std::size_t size = x.loss.size();
    const Vector a = test::adjustment_of(x);
    const Vector ca = test::product(x.gram, a);
    const Vector slope = test::product(x.gram, found.mu);  // d'g_j
    const double balancing_norm = std::sqrt(std::max(0.0, test::dot(a, ca)));
    double bound = 0.0;  // B
    double bottleneck = 0.0;
    for (std::size_t j = 0; j < size; ++j) {
      bound = std::max(bound, std::sqrt(x.gram[j * size + j]));
      bottleneck = std::max(bottleneck, x.preference[j] * x.loss[j]);
    }
    const double rounding = 1e-9 * bound * bound;
    const bool positive = test::dot(a, slope) > 1e-12 * bound * balancing_norm;
    const bool no_aligned = found.num_aligned == 0;
    count.gamma_not_positive += positive ? 0 : 1;
    count.no_aligned += no_aligned ? 1 : 0;
    count.no_aligned_gamma_positive += no_aligned && positive ? 1 : 0;
    count.aligned_gamma_not_positive += !no_aligned && !positive ? 1 : 0;
    bool protected_below = false;
    bool free_below = false;
    bool star_rises = false;
    bool free_rises = false;
    for (std::size_t j = 0; j < size; ++j) {
      const bool star = x.preference[j] * x.loss[j] >= (1 - 1e-9) * bottleneck;
      const bool is_free =
          !star && ca[j] > 1e-12 * std::sqrt(x.gram[j * size + j]) * balancing_norm;
      const bool below = slope[j] < -balancing_norm * bound - rounding;
      protected_below = protected_below || (below && !is_free);
      free_below = free_below || (below && is_free);
      star_rises = star_rises || (star && slope[j] < -rounding);
      free_rises = free_rises || (is_free && slope[j] < -rounding);
      count.worst = std::max(count.worst, -slope[j] / (balancing_norm * bound));
    }
    count.protected_falls_below += protected_below ? 1 : 0;
    count.free_falls_below += free_below ? 1 : 0;
    count.bottleneck_rises += star_rises ? 1 : 0;
    count.free_rises += free_rises ? 1 : 0;
  }
  return count;
}

TEST(LpStatements, WhatTheProgramGuarantees) {
  constexpr std::array kNames{"independent", "common gradient", "near stationary"};
  std::printf(
      "%-16s m | gamma<=0 | J empty | J not empty, gamma<=0 | (48) fails | j in J rises | "
      "worst d'g/(|d_bal|B)\n",
      "gradients");
  std::array<std::array<Frequencies, 6>, 3> table{};
  for (std::size_t e = 0; e < 3; ++e) {
    for (int m = 2; m <= 5; ++m) {
      const Frequencies f = measure(static_cast<Ensemble>(e), m, 120 + e);
      table[e][static_cast<std::size_t>(m)] = f;
      const auto percent = [](int n) { return 100.0 * n / kInstances; };
      std::printf("%-16s %d | %7.2f%% | %6.2f%% | %20.2f%% | %9.2f%% | %11.2f%% | %.2f\n",
                  kNames[e], m, percent(f.gamma_not_positive), percent(f.no_aligned),
                  percent(f.aligned_gamma_not_positive), percent(f.free_falls_below),
                  percent(f.free_rises), -f.worst);
      // Follows from the rows and the simplex, whatever the gradients.
      EXPECT_EQ(f.no_aligned_gamma_positive, 0);
      EXPECT_EQ(f.protected_falls_below, 0);
      EXPECT_EQ(f.bottleneck_rises, 0);
      if (m == 2) {
        // With two objectives J holds the bottleneck unless it is empty: (C A)_2 > 0 >= A_2 needs
        // C_12 > 0, and then C_12^2 <= C_11 C_22 makes (C A)_1 > 0. So e_1, or the point where row
        // 2 becomes tight, has gamma > 0.
        EXPECT_EQ(f.aligned_gamma_not_positive, 0);
      }
    }
  }
  for (std::size_t m = 2; m <= 5; ++m) {
    // Property (b) is no property of the program, and J empty is why.
    EXPECT_GT(table[1][m].gamma_not_positive, kInstances / 4);
    EXPECT_GT(table[1][m].no_aligned, kInstances / 4);
    EXPECT_GT(table[1][m].gamma_not_positive, 3 * table[0][m].gamma_not_positive);
    EXPECT_LT(table[2][m].gamma_not_positive, kInstances / 100);
    for (const auto& row : table) {
      EXPECT_LE(row[m].aligned_gamma_not_positive, kInstances / 50);
    }
  }
  for (std::size_t m = 3; m <= 5; ++m) {
    // (48) is not constrained for j in J \ J*.
    EXPECT_GT(table[2][m].free_falls_below, kInstances / 50);
    EXPECT_GT(table[2][m].worst, 1.0);
  }
}

TEST(LpStatements, HandExampleAgainstPropertyB) {
  // C = (1, .9; .9, 1), A ~ (1, -2): C A = A_1 (-.8, -1.1), so J is empty and gamma* = -.8 A_1.
  const Direction found =
      make_solver({})->solve({Vector{1, .5}, Vector{1, .9, .9, 1}, Vector{.7, .3}});
  EXPECT_NEAR(found.adjustment[1] / found.adjustment[0], -2.0, 1e-12);
  EXPECT_GT(found.uniformity, .2);
  EXPECT_EQ(found.num_aligned, 0);
  EXPECT_EQ(found.mu, (Vector{1, 0}));
  EXPECT_NEAR(found.gamma, -.8 * found.adjustment[0], 1e-14);
}

TEST(LpStatements, ReportedCountsAreThoseOfTheInstance) {
  DirectionOptions options;
  options.beta_tolerance = 1e-10;
  options.ascent_tolerance = 1e-12;
  const auto solver = make_solver(options);
  CounterRng rng({.seed = 131});
  int rising = 0;
  for (int k = 0; k < 2000; ++k) {
    const auto x = test::draw(rng, 2 + k % 4, static_cast<Ensemble>(k / 4 % 3), k % 5 == 4);
    const std::size_t m = x.loss.size();
    const Direction found = solver->solve({x.loss, x.gram, x.preference});
    const Vector a = test::adjustment_of(x);
    const Vector ca = test::product(x.gram, a);
    const Vector slope = test::product(x.gram, found.mu);
    int aligned = 0;
    int ascending = 0;
    int both = 0;
    double slack = std::numeric_limits<double>::infinity();
    const auto lp = test::paper_lp(x, 1e-10, 1e-12);
    for (std::size_t j = 0; j < m; ++j) {
      double largest = 0.0;
      for (std::size_t i = 0; i < m; ++i) {
        largest = std::max(largest, std::abs(x.gram[j * m + i]));
      }
      const double tolerance =
          1e-12 * std::sqrt(x.gram[j * m + j] * std::max(0.0, test::dot(a, ca)));
      aligned += ca[j] > tolerance ? 1 : 0;
      ascending += slope[j] < -1e-9 * largest ? 1 : 0;
      both += ca[j] > tolerance && slope[j] < -1e-9 * largest ? 1 : 0;
      if (std::isfinite(lp.bound[j])) {
        slack = std::min(slack, (slope[j] - lp.bound[j]) / lp.scale);
      }
    }
    if (found.mode == Mode::kBalancing) {  // for balanced losses A is rounding noise
      EXPECT_EQ(found.num_aligned, aligned) << k;
      EXPECT_EQ(found.num_aligned_ascending, both) << k;
    }
    EXPECT_EQ(found.num_ascending, ascending) << k;
    EXPECT_NEAR(found.min_slack, std::isfinite(slack) ? slack : 0.0, 1e-11) << k;
    EXPECT_NEAR(found.gamma, test::dot(a, slope), 1e-10 * lp.scale) << k;
    EXPECT_NEAR(found.direction_norm * found.direction_norm, test::dot(found.mu, slope),
                1e-10 * lp.scale);
    rising += both > 0 ? 1 : 0;
  }
  EXPECT_GT(rising, 20);
}

}  // namespace
}  // namespace apo::direction
