#include <array>
#include <cmath>
#include <limits>
#include <thread>

#include "lp_oracle.hpp"
#include "solvers.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using Vector = std::vector<double>;

/// Oracle runs: exact mode switch, double-precision Gram matrices.
DirectionOptions oracle_options() {
  DirectionOptions options;
  options.beta_tolerance = 1e-10;
  options.ascent_tolerance = 1e-12;
  return options;
}

Direction solve(const Vector& loss, const Vector& preference, const Vector& gram,
                const DirectionOptions& options = oracle_options(), bool force = false) {
  return make_solver(options)->solve({loss, gram, preference, force});
}

const Vector kGoldenGram = test::gram_of({{1, 0, .5}, {-.5, 1, 0}, {0, -.5, 1}});

TEST(ApoLp, GoldenThreeObjectives) {
  const Direction found = solve({.6, .4, .9}, {.5, .3, .2}, kGoldenGram);
  EXPECT_EQ(found.mode, Mode::kBalancing);
  EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
  EXPECT_NEAR(found.mu[0], 0.876636466422053, 1e-14);
  EXPECT_NEAR(found.mu[1], 0.123363533577947, 1e-14);
  EXPECT_NEAR(found.mu[2], 0.0, 1e-15);
  EXPECT_NEAR(found.gamma, 0.210279097891697, 1e-14);
  EXPECT_EQ(found.num_aligned, 2);
  EXPECT_EQ(found.num_ascending, 1);
  EXPECT_EQ(found.num_aligned_ascending, 0);
  EXPECT_FALSE(found.nonunique);
  EXPECT_NEAR(found.min_slack, 0.0, 1e-14);
  EXPECT_DOUBLE_EQ(found.chebyshev, .3);
  // d = G mu by hand
  const double d0 = 0.876636466422053 - .5 * 0.123363533577947;
  const double d1 = 0.123363533577947;
  const double d2 = .5 * 0.876636466422053;
  EXPECT_NEAR(found.direction_norm, std::sqrt(d0 * d0 + d1 * d1 + d2 * d2), 1e-14);
}

TEST(ApoLp, GoldenUniform) {
  const Vector preference{.5, .3, .2};
  const Direction found = solve({2.0, 10.0 / 3.0, 5.0}, preference, kGoldenGram);
  EXPECT_EQ(found.mode, Mode::kUniform);
  // Objectives 1 and 3 enter symmetrically: the optimum is the edge between (5, 2, 0) / 7 and
  // (0, 2, 5) / 7. GLPK may give either end, and must say that there is more than one.
  EXPECT_TRUE(found.nonunique);
  EXPECT_NEAR(found.mu[1], 2.0 / 7.0, 1e-14);
  EXPECT_NEAR(std::max(found.mu[0], found.mu[2]), 5.0 / 7.0, 1e-14);
  EXPECT_NEAR(std::min(found.mu[0], found.mu[2]), 0.0, 1e-15);
  double value = 0.0;
  for (std::size_t i = 0; i < 9; ++i) {
    value += found.mu[i / 3] * kGoldenGram[i];
  }
  EXPECT_NEAR(value, 27.0 / 28.0, 1e-14);
}

TEST(ApoLp, GoldenTwoObjectives) {
  const Direction found = solve({1, .5}, {.7, .3}, {1, -.3, -.3, .25});
  EXPECT_NEAR(found.mu[0], 0.731331301474996, 1e-14);
  EXPECT_NEAR(found.mu[1], 0.268668698525004, 1e-14);
  EXPECT_NEAR(found.gamma, 0.181764337735739, 1e-14);
}

TEST(ApoLp, OrthonormalGradients) {
  const Vector identity{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const Direction found = solve({.6, .4, .9}, {.5, .3, .2}, identity);
  EXPECT_EQ(found.mu, (Vector{1, 0, 0}));
  const Direction tied = solve({2.0, 10.0 / 3.0, 5.0}, {.5, .3, .2}, identity);
  EXPECT_EQ(tied.mode, Mode::kUniform);
  EXPECT_TRUE(tied.nonunique);
  EXPECT_DOUBLE_EQ(tied.mu[0] + tied.mu[1] + tied.mu[2], 1.0);
}

TEST(ApoLp, OppositeGradients) {
  const Vector gram{1, -1, -1, 1};
  for (const Vector& loss : {Vector{1, .5}, Vector{1, 2}, Vector{3, .01}}) {
    const Direction found = solve(loss, {.7, .3}, gram);
    const double a = found.adjustment[0] - found.adjustment[1];
    ASSERT_GT(a, 0.0);
    EXPECT_NEAR(found.mu[0], (1.0 + std::min(1.0, a)) / 2.0, 1e-14);
    EXPECT_NEAR(found.gamma, a * std::min(1.0, a), 1e-14);
    EXPECT_EQ(found.num_ascending, 1);
  }
  const Direction still = solve({3, 7}, {.7, .3}, gram);
  EXPECT_EQ(still.mode, Mode::kUniform);
  EXPECT_NEAR(still.mu[0], .5, 1e-15);
  EXPECT_NEAR(still.direction_norm, 0.0, 1e-7);
}

TEST(ApoLp, IdenticalGradients) {
  const Direction found = solve({1, .5}, {.7, .3}, {2, 2, 2, 2});
  EXPECT_TRUE(found.nonunique);
  EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
  EXPECT_NEAR(found.gamma, 2.0 * (found.adjustment[0] + found.adjustment[1]), 1e-14);
  EXPECT_NEAR(found.direction_norm, std::sqrt(2.0), 1e-14);
}

TEST(ApoLp, NoAlignedObjectiveMeansDescentWithoutBalancing) {
  const Direction found = solve({1, .5}, {.7, .3}, {1, .9, .9, 1});
  EXPECT_EQ(found.num_aligned, 0);
  EXPECT_EQ(found.mu, (Vector{1, 0}));
  EXPECT_LT(found.gamma, 0.0);
  EXPECT_NEAR(found.gamma, -.8 * found.adjustment[0], 1e-14);
  EXPECT_EQ(found.num_ascending, 0);
}

TEST(ApoLp, StationaryWhenAllGradientsVanish) {
  for (const double tiny : {0.0, 1e-301}) {
    const Direction found = solve({1, .5}, {.7, .3}, {tiny, 0, 0, tiny});
    EXPECT_EQ(found.mode, Mode::kStationary);
    EXPECT_EQ(found.lp_status, LpStatus::kNone);
    EXPECT_EQ(found.mu, (Vector{.5, .5}));
    EXPECT_EQ(found.direction_norm, 0.0);
  }
  // Just above, the LP works as always.
  const Direction found = solve({1, .5}, {.7, .3}, {1e-290, -.3e-290, -.3e-290, .25e-290});
  EXPECT_NEAR(found.mu[0], 0.731331301474996, 1e-12);
}

TEST(ApoLp, OneVanishingGradient) {
  const Direction found = solve({1, .5, .8}, {.5, .3, .2}, {1, 0, -.3, 0, 0, 0, -.3, 0, .25});
  EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
  EXPECT_GE(found.min_slack, -1e-12);
  const Direction uniform =
      solve({2.0, 10.0 / 3.0, 5.0}, {.5, .3, .2}, {1, 0, .2, 0, 0, 0, .2, 0, .25});
  EXPECT_EQ(uniform.mu, (Vector{1, 0, 0}));
}

TEST(ApoLp, SingleObjective) {
  const Direction found = solve({.4}, {1}, {9});
  EXPECT_EQ(found.mu, Vector{1});
  EXPECT_EQ(found.lp_status, LpStatus::kNone);
  EXPECT_EQ(found.uniformity, 0.0);
  EXPECT_DOUBLE_EQ(found.direction_norm, 3.0);
  EXPECT_DOUBLE_EQ(found.chebyshev, .4);
  EXPECT_EQ(solve({.4}, {1}, {0}).mode, Mode::kStationary);
}

TEST(ApoLp, TiedBottlenecksAreAllProtected) {
  CounterRng rng({.seed = 31});
  for (int k = 0; k < 200; ++k) {
    const auto x = test::draw(rng, 4, test::Ensemble::kNearStationary, false);
    // lambda_1 l_1 = lambda_2 l_2 up to rounding, above the others
    const Direction found =
        solve({1.0, 1.0 / 3.0 * 3.0 * (1 + 1e-15), .2, .3}, {.3, .3, .2, .2}, x.gram);
    for (std::size_t j = 0; j < 2; ++j) {
      EXPECT_GE(test::dot(&x.gram[4 * j], found.mu.data(), 4), -1e-8 * x.gram[0]);
    }
  }
}

TEST(ApoLp, ForcedBalancing) {
  DirectionOptions options = oracle_options();
  options.beta_tolerance = 0.1;  // nearly balanced losses count as balanced, forced or not
  const Vector loss{.6, .4, .9};
  const Vector preference{.5, .3, .2};
  EXPECT_EQ(solve(loss, preference, kGoldenGram, options, false).mode, Mode::kUniform);
  EXPECT_EQ(solve(loss, preference, kGoldenGram, options, true).mode, Mode::kUniform);
  options.beta_tolerance = 0.06;
  const Direction forced = solve(loss, preference, kGoldenGram, options, true);
  EXPECT_EQ(forced.mode, Mode::kBalancing);
  EXPECT_NEAR(forced.gamma, 0.210279097891697, 1e-14);
  // beta = 0 exactly: the objective of LP (5) vanishes
  options.beta_tolerance = 0.0;
  EXPECT_EQ(solve({1, 1}, {.5, .5}, {1, 0, 0, 2}, options, true).mode, Mode::kUniform);
}

TEST(ApoLp, RowsOfShortGradientsDoNotDrownInTolerances) {
  CounterRng rng({.seed = 34});
  const auto persistent = make_solver(oracle_options());
  for (int k = 0; k < 2000; ++k) {
    const int m = 2 + k % 4;
    auto x = test::draw(rng, m, static_cast<test::Ensemble>(k / 4 % 3), k % 3 == 0);
    const auto size = static_cast<std::size_t>(m);
    Vector length(size, 1.0);
    for (std::size_t j = 1; j < size; ++j) {
      length[j] = std::pow(10.0, -8.0 * rng.uniform());
    }
    for (std::size_t i = 0; i < size * size; ++i) {
      x.gram[i] *= length[i / size] * length[i % size];
    }
    const Direction found = solve(x.loss, x.preference, x.gram);
    EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
    // Some of these need GLPK's scaling; it must not show in the answers that follow.
    EXPECT_EQ(persistent->solve({x.loss, x.gram, x.preference, false}).mu, found.mu) << k;
    const auto lp = test::paper_lp(x, 1e-10, 1e-12);
    for (std::size_t j = 0; j < size; ++j) {
      double largest = 0.0;
      for (std::size_t i = 0; i < size; ++i) {
        largest = std::max(largest, std::abs(x.gram[j * size + i]));
      }
      EXPECT_GE(test::dot(&x.gram[j * size], found.mu.data(), size), lp.bound[j] - 1e-10 * largest)
          << "m=" << m << " k=" << k << " row " << j;
    }
  }
}

TEST(ApoLp, EightObjectivesAndMore) {
  CounterRng rng({.seed = 32});
  for (const int m : {6, 7, 8, 12}) {
    for (int k = 0; k < 100; ++k) {
      const auto x = test::draw(rng, m, static_cast<test::Ensemble>(k % 4), k % 4 == 3);
      const Direction found = solve(x.loss, x.preference, x.gram);
      EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
      EXPECT_LE(test::violation(x, test::paper_lp(x, 1e-10, 1e-12), found.mu), 1e-9);
    }
  }
}

TEST(ApoLp, LossesBelowTheFloorAreCounted) {
  const Direction found = solve({1, 0}, {.7, .3}, {1, -.3, -.3, .25});
  EXPECT_EQ(found.losses_floored, 1);
  EXPECT_TRUE(std::isfinite(found.gamma));
}

TEST(ApoLp, RefusesBadNumbersBeforeGlpkSeesThem) {
  const auto solver = make_solver(oracle_options());
  EXPECT_TRUE(solver->needs_gram());
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  const Vector gram{1, -.3, -.3, .25};
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(static_cast<void>(solver->solve({Vector{1, bad}, gram, preference, false})),
                 Error);
    EXPECT_THROW(
        static_cast<void>(solver->solve({loss, Vector{1, bad, bad, 1}, preference, false})), Error);
    EXPECT_THROW(static_cast<void>(solver->solve({loss, gram, Vector{bad, 1}, false})), Error);
  }
  EXPECT_THROW(static_cast<void>(solver->solve({loss, Vector{1}, preference, false})), Error);
  EXPECT_THROW(static_cast<void>(solver->solve({loss, gram, Vector{.7, .7}, false})), Error);
  EXPECT_THROW(static_cast<void>(solver->solve({loss, gram, Vector{1.3, -.3}, false})), Error);
  EXPECT_THROW(static_cast<void>(solver->solve({{}, {}, {}, false})), Error);
  // and it still works
  EXPECT_NEAR(solver->solve({loss, gram, preference, false}).gamma, 0.181764337735739, 1e-14);
}

TEST(ApoLp, OneSolverPerThread) {
  std::array<Vector, 4> found;
  std::vector<std::thread> threads;
  for (Vector& mine : found) {
    threads.emplace_back([&mine] {
      CounterRng rng({.seed = 33});
      const auto solver = make_solver(oracle_options());
      for (int k = 0; k < 300; ++k) {
        const auto x = test::draw(rng, 2 + k % 4, test::Ensemble::kGeneric, k % 2 == 0);
        const Direction d = solver->solve({x.loss, x.gram, x.preference, false});
        mine.insert(mine.end(), d.mu.begin(), d.mu.end());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Vector& other : found) {
    EXPECT_EQ(other, found[0]);
  }
}

TEST(ApoLp, AnotherThreadIsRefusedNotAborted) {
  auto solver = make_solver(oracle_options());
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  const Vector gram{1, -.3, -.3, .25};
  static_cast<void>(solver->solve({loss, gram, preference, false}));
  bool refused = false;
  std::thread([&] {
    try {
      static_cast<void>(solver->solve({loss, gram, preference, false}));
    } catch (const Error& error) {
      refused = error.fault() == Fault::kInternal;
    }
    solver.reset();  // leaves GLPK's memory behind; deleting it here would abort
  }).join();
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace apo::direction
