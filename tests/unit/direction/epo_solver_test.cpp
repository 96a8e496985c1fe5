#include <cmath>
#include <cstdio>
#include <limits>

#include "polytope_oracle.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using test::Instance;
using test::OracleRow;
using test::Vector;

/// As the authors' code compares: exactly.
DirectionOptions epo(const std::string& mode, double beta_tolerance = 1e-4) {
  DirectionOptions options;
  options.solver = "epo";
  options.epo_mode = mode;
  options.beta_tolerance = beta_tolerance;
  options.bottleneck_tolerance = 0.0;
  options.ascent_tolerance = 0.0;
  return options;
}

/// EPO's two programs as its authors state them (all numbers over max_j C_jj).
struct EpoProgram {
  bool balancing = false;
  Vector objective;
  std::vector<OracleRow> rows;
  std::vector<OracleRow> guard;  // the restricted form's row, in descent mode
};

EpoProgram epo_program(const Instance& x, double epsilon) {
  const std::size_t m = x.loss.size();
  double scale = 0.0;
  double rl_sum = 0.0;
  double rl_max = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    scale = std::max(scale, x.gram[j * m + j]);
    rl_sum += x.preference[j] * x.loss[j];
    rl_max = std::max(rl_max, x.preference[j] * x.loss[j]);
  }
  double mu_rl = 0.0;
  for (std::size_t j = 0; j < m; ++j) {
    const double share = x.preference[j] * x.loss[j] / rl_sum;
    mu_rl += share * std::log(static_cast<double>(m) * share);
  }
  Vector gram = x.gram;
  for (double& c : gram) {
    c /= scale;
  }
  const Vector ca = test::product(gram, test::adjustment_of(x));
  const auto row = [&](std::size_t j) {
    return Vector(gram.begin() + static_cast<std::ptrdiff_t>(j * m),
                  gram.begin() + static_cast<std::ptrdiff_t>((j + 1) * m));
  };
  EpoProgram program;
  program.balancing = mu_rl > epsilon;
  double largest = ca[0];
  bool any = false;
  for (const double c : ca) {
    largest = std::max(largest, c);
    any = any || c > 0.0;
  }
  if (!program.balancing) {
    program.objective = test::product(gram, Vector(m, 1.0));
    for (std::size_t j = 0; j < m; ++j) {
      program.rows.push_back({row(j), 0.0});
    }
    program.guard.push_back({ca, std::min(0.0, largest)});
    return program;
  }
  program.objective = ca;
  for (std::size_t j = 0; j < m; ++j) {
    double right = any ? ca[j] : 0.0;
    bool constrained = !(any && ca[j] > 0.0);
    if (any && x.preference[j] * x.loss[j] == rl_max) {
      right = 0.0;
      constrained = true;
    }
    if (constrained) {
      program.rows.push_back({row(j), right});
    }
  }
  return program;
}

double best_value(const std::vector<Vector>& points, const Vector& c) {
  double best = -std::numeric_limits<double>::infinity();
  for (const Vector& v : points) {
    best = std::max(best, test::dot(c, v));
  }
  return best;
}

TEST(EpoSolver, SolvesTheAuthorsPrograms) {
  CounterRng rng({.seed = 81});
  int guarded = 0;
  int binding = 0;
  int dropped = 0;
  int lower_rungs = 0;
  for (const double epsilon : {1e-4, 0.2}) {  // 0.2: many unbalanced points in descent mode
    const auto restricted = make_solver(epo("restricted", epsilon));
    const auto relaxed = make_solver(epo("relaxed", epsilon));
    for (int k = 0; k < 6000; ++k) {
      const std::size_t m = 2 + static_cast<std::size_t>(k % 4);
      const Instance x =
          test::draw(rng, static_cast<int>(m), static_cast<test::Ensemble>(k / 4 % 3), k % 7 == 6);
      const EpoProgram program = epo_program(x, epsilon);
      const auto free = test::vertices(m, program.rows);
      const Direction b = relaxed->solve({x.loss, x.gram, x.preference});
      ASSERT_EQ(b.mode, program.balancing ? Mode::kBalancing : Mode::kUniform) << k;
      ASSERT_LE(test::violation(program.rows, b.mu), 1e-10) << k;
      ASSERT_NEAR(test::dot(program.objective, b.mu), best_value(free, program.objective), 1e-10);
      EXPECT_FALSE(b.guard_dropped);

      const Direction a = restricted->solve({x.loss, x.gram, x.preference});
      EXPECT_LE(a.lp_status, LpStatus::kExact) << k;
      lower_rungs += a.lp_status != LpStatus::kOptimal ? 1 : 0;
      if (program.balancing) {
        EXPECT_EQ(a.mu, b.mu) << "the modes differ in descent only";
        continue;
      }
      ++guarded;
      auto rows = program.rows;
      rows.insert(rows.end(), program.guard.begin(), program.guard.end());
      const auto corner = test::vertices(m, rows);
      if (corner.empty()) {
        ++dropped;
        EXPECT_TRUE(a.guard_dropped) << k;
        EXPECT_EQ(a.mu, b.mu) << k;
        continue;
      }
      ASSERT_FALSE(a.guard_dropped) << k;
      ASSERT_LE(test::violation(rows, a.mu), 1.1e-9) << k;
      ASSERT_NEAR(test::dot(program.objective, a.mu), best_value(corner, program.objective),
                  a.lp_status == LpStatus::kOptimal ? 1e-8 : 1e-5)
          << k;
      binding += test::dot(program.objective, a.mu) < test::dot(program.objective, b.mu) - 1e-6;
    }
  }
  std::printf("%d guarded: %d where the guard binds, %d without a point, %d on lower rungs\n",
              guarded, binding, dropped, lower_rungs);
  EXPECT_GT(guarded, 2000);
  EXPECT_GT(binding, 100);
  // Near a stationary point the guard leaves regions of size 1e-7, which GLPK can take for empty
  // because the rows' slopes there are below its dual tolerance; the ladder finds them.
  EXPECT_LT(lower_rungs, guarded / 50);
  EXPECT_GT(dropped, 0) << "three objectives and more can make the restricted program infeasible";
}

TEST(EpoSolver, RestrictedProgramWithoutAPoint) {
  // Common descent directions of g_1 = (1, 0), g_2 = (-.9, 1), g_3 = (.05, .2) lie between (1, .9)
  // and (0, 1); d_bal = A_1 g_1 + A_2 g_2 + A_3 g_3 = (1, -2) / 20 points away from all of them
  // although g_1'd_bal > 0.
  const Vector gram = test::gram_of({{1, 0}, {-.9, 1}, {.05, .2}});
  const Vector wanted{-1.03 / 20, -2.2 / 20, 1.0 / 20};
  // A = (-1.03, -2.2, 1) / 20 belongs to the losses l with l'A = 0 and shares that give these
  // signs: lambda_j = A_j / (log(3 share_j) - beta).
  const Vector share{.2, .12, .68};
  double beta = 0.0;
  for (const double s : share) {
    beta += s * std::log(3.0 * s);
  }
  Vector preference;
  double sum = 0.0;
  for (std::size_t j = 0; j < 3; ++j) {
    preference.push_back(wanted[j] / (std::log(3.0 * share[j]) - beta));
    sum += preference.back();
  }
  Vector loss;
  for (std::size_t j = 0; j < 3; ++j) {
    preference[j] /= sum;  // scales A, and with it the guard's bound of 0, by a factor
    loss.push_back(share[j] / preference[j]);
  }
  const auto found = make_solver(epo("restricted", 10.0))->solve({loss, gram, preference});
  EXPECT_NEAR(found.adjustment[0] / found.adjustment[2], -1.03, 1e-12);
  EXPECT_NEAR(found.adjustment[1] / found.adjustment[2], -2.2, 1e-12);
  EXPECT_EQ(found.mode, Mode::kUniform);
  EXPECT_EQ(found.num_aligned, 1);
  EXPECT_TRUE(found.guard_dropped);
  EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
  EXPECT_EQ(found.mu, make_solver(epo("relaxed", 10.0))->solve({loss, gram, preference}).mu);
  EXPECT_LT(found.gamma, 0.0);
}

TEST(EpoSolver, RestrictedDescentKeepsTheBalance) {
  // C = (1, .9; .9, 1.44), A ~ (1, -2): C A = (-.8, -1.98), so uniform descent wants e_2 and the
  // guard mu'C A >= -.8 wants e_1.
  const Vector loss{1, .5};
  const Vector preference{.7, .3};
  const Vector gram{1, .9, .9, 1.44};
  const auto relaxed = make_solver(epo("relaxed", 1.0))->solve({loss, gram, preference});
  EXPECT_EQ(relaxed.mu, (Vector{0, 1}));
  const auto restricted = make_solver(epo("restricted", 1.0))->solve({loss, gram, preference});
  EXPECT_NEAR(restricted.mu[0], 1.0, 1e-12);
  EXPECT_GT(restricted.gamma, relaxed.gamma);
}

TEST(EpoSolver, SameAsTheGuardOfApoLp) {
  CounterRng rng({.seed = 82});
  DirectionOptions guarded = epo("restricted", 0.1);
  guarded.solver = "apo_lp";
  guarded.uniform_guard = "epo_restricted";
  DirectionOptions plain = epo("relaxed", 0.1);
  plain.solver = "apo_lp";
  const auto a = make_solver(epo("restricted", 0.1));
  const auto b = make_solver(guarded);
  const auto c = make_solver(epo("relaxed", 0.1));
  const auto d = make_solver(plain);
  for (int k = 0; k < 1000; ++k) {
    const Instance x = test::draw(rng, 2 + k % 4, static_cast<test::Ensemble>(k / 4 % 4), false);
    const Problem problem{x.loss, x.gram, x.preference};
    EXPECT_EQ(a->solve(problem).mu, b->solve(problem).mu);
    EXPECT_EQ(c->solve(problem).mu, d->solve(problem).mu);
  }
}

TEST(EpoSolver, BalancedLossesNeedNoGuard) {
  // A = 0 exactly: the guard row is 0 >= 0
  const auto found = make_solver(epo("restricted"))
                         ->solve({Vector{1, 1}, Vector{1, -.3, -.3, .25}, Vector{.5, .5}});
  EXPECT_FALSE(found.guard_dropped);
  EXPECT_EQ(found.mode, Mode::kUniform);
  EXPECT_EQ(found.lp_status, LpStatus::kOptimal);
}

TEST(EpoSolver, UnknownModesAreRefused) {
  EXPECT_THROW(static_cast<void>(make_solver(epo("lenient"))), Error);
  DirectionOptions options;
  options.uniform_guard = "pike";
  EXPECT_THROW(static_cast<void>(make_solver(options)), Error);
}

}  // namespace
}  // namespace apo::direction
