#include <algorithm>
#include <numeric>

#include "lp_oracle.hpp"
#include "solvers.hpp"
#include <gtest/gtest.h>

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

using test::Ensemble;
using test::Instance;

constexpr std::array kEnsembles{Ensemble::kGeneric, Ensemble::kCorrelated,
                                Ensemble::kNearStationary, Ensemble::kDuplicates};

DirectionOptions oracle_options() {
  DirectionOptions options;
  options.beta_tolerance = 1e-10;
  options.ascent_tolerance = 1e-12;
  return options;
}

Problem problem_of(const Instance& x) { return {x.loss, x.gram, x.preference, false}; }

TEST(ApoLpRandom, AgreesWithVertexEnumerationOn100000Instances) {
  const auto options = oracle_options();
  const auto solver = make_solver(options);
  CounterRng rng({.seed = 11});
  int checked = 0;
  int uniform = 0;
  int without_aligned = 0;
  int not_balancing = 0;
  double worst_objective = 0.0;
  double worst_violation = 0.0;
  for (const Ensemble ensemble : kEnsembles) {
    for (int m = 2; m <= 5; ++m) {
      for (int k = 0; k < 6250; ++k) {
        const Instance x = test::draw(rng, m, ensemble, k % 4 == 3);
        const Direction found = solver->solve(problem_of(x));
        ASSERT_EQ(found.lp_status, LpStatus::kOptimal) << "m=" << m << " k=" << k;
        ASSERT_EQ(found.mode, k % 4 == 3 ? Mode::kUniform : Mode::kBalancing);
        const auto lp = test::paper_lp(x, options.beta_tolerance, options.ascent_tolerance);
        const double best = test::best_vertex_value(x, lp);
        const double value =
            test::dot(lp.objective.data(), found.mu.data(), static_cast<std::size_t>(m));
        worst_objective = std::max(worst_objective, std::abs(value - best) / lp.scale);
        worst_violation = std::max(worst_violation, test::violation(x, lp, found.mu));
        ASSERT_LE(std::abs(value - best), 1e-10 * lp.scale)
            << "m=" << m << " k=" << k << " ensemble=" << static_cast<int>(ensemble);
        ++checked;
        uniform += found.mode == Mode::kUniform ? 1 : 0;
        without_aligned += found.num_aligned == 0 ? 1 : 0;
        not_balancing += found.mode == Mode::kBalancing && found.gamma <= 0.0 ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(checked, 100000);
  EXPECT_EQ(uniform, 16 * 1562);
  EXPECT_LE(worst_violation, 1e-10);
  // The paper's property (b), gamma* > 0, is no property of the LP: section 1.5.
  EXPECT_GT(without_aligned, 0);
  EXPECT_GT(not_balancing, 0);
  RecordProperty("worst_objective_difference", std::to_string(worst_objective));
  std::printf("worst objective difference %.2e, worst violation %.2e (of max|C|)\n",
              worst_objective, worst_violation);
}

TEST(ApoLpRandom, TwoObjectivesClosedForm) {
  const auto options = oracle_options();
  const auto solver = make_solver(options);
  CounterRng rng({.seed = 12});
  for (int k = 0; k < 8000; ++k) {
    const Instance x = test::draw(rng, 2, kEnsembles[static_cast<std::size_t>(k % 3)], k % 5 == 4);
    const auto lp = test::paper_lp(x, options.beta_tolerance, options.ascent_tolerance);
    double low = 0.0;
    double high = 1.0;
    for (std::size_t j = 0; j < 2; ++j) {
      if (std::isfinite(lp.bound[j])) {
        const double slope = x.gram[2 * j] - x.gram[2 * j + 1];
        const double limit = (lp.bound[j] - x.gram[2 * j + 1]) / slope;
        (slope > 0.0 ? low : high) = slope > 0.0 ? std::max(low, limit) : std::min(high, limit);
      }
    }
    const double t = lp.objective[0] > lp.objective[1] ? high : low;
    const Direction found = solver->solve(problem_of(x));
    EXPECT_NEAR(found.mu[0], t, 1e-11) << k;
    // closed form = enumeration = simplex method
    const double value = t * lp.objective[0] + (1.0 - t) * lp.objective[1];
    EXPECT_NEAR(value, test::best_vertex_value(x, lp), 1e-10 * lp.scale) << k;
    EXPECT_NEAR(value, test::dot(lp.objective.data(), found.mu.data(), 2), 1e-10 * lp.scale) << k;
  }
}

TEST(ApoLpRandom, ScaleOfTheGramDoesNotMatter) {
  const auto solver = make_solver(oracle_options());
  CounterRng rng({.seed = 13});
  for (int k = 0; k < 2000; ++k) {
    const Instance x =
        test::draw(rng, 2 + k % 4, kEnsembles[static_cast<std::size_t>(k / 4 % 3)], false);
    const Direction found = solver->solve(problem_of(x));
    for (const double factor : {3.7e-13, 7.1e9, 0x1p-60}) {
      Instance scaled = x;
      for (double& c : scaled.gram) {
        c *= factor;
      }
      const Direction other = solver->solve(problem_of(scaled));
      for (std::size_t j = 0; j < x.loss.size(); ++j) {
        EXPECT_NEAR(other.mu[j], found.mu[j], 1e-12) << k;
      }
      EXPECT_NEAR(other.gamma / factor, found.gamma, 1e-11 * std::abs(x.gram[0]) + 1e-11);
    }
  }
}

TEST(ApoLpRandom, ObjectivesMayBePermuted) {
  const auto solver = make_solver(oracle_options());
  CounterRng rng({.seed = 14});
  int unique = 0;
  for (int k = 0; k < 2000; ++k) {
    const Instance x =
        test::draw(rng, 2 + k % 4, kEnsembles[static_cast<std::size_t>(k / 4 % 3)], false);
    const std::size_t m = x.loss.size();
    std::vector<std::size_t> place(m);
    std::iota(place.begin(), place.end(), 0);
    rng.shuffle(std::span(place));
    Instance permuted = x;
    for (std::size_t i = 0; i < m; ++i) {
      permuted.loss[i] = x.loss[place[i]];
      permuted.preference[i] = x.preference[place[i]];
      for (std::size_t j = 0; j < m; ++j) {
        permuted.gram[i * m + j] = x.gram[place[i] * m + place[j]];
      }
    }
    const Direction found = solver->solve(problem_of(x));
    const Direction other = solver->solve(problem_of(permuted));
    EXPECT_NEAR(found.gamma, other.gamma, 1e-10 * *std::max_element(x.gram.begin(), x.gram.end()));
    if (!found.nonunique) {
      ++unique;
      for (std::size_t i = 0; i < m; ++i) {
        EXPECT_NEAR(other.mu[i], found.mu[place[i]], 1e-9) << k;
      }
    }
  }
  EXPECT_GT(unique, 1900);
}

TEST(ApoLpRandom, AnswersDoNotDependOnTheHistory) {
  CounterRng rng({.seed = 15});
  std::vector<Instance> instances;
  for (int k = 0; k < 1000; ++k) {
    instances.push_back(
        test::draw(rng, 2 + k % 4, kEnsembles[static_cast<std::size_t>(k / 4 % 4)], k % 3 == 0));
  }
  const auto together = make_solver(oracle_options());
  std::vector<std::vector<double>> forward;
  for (const Instance& x : instances) {
    forward.push_back(together->solve(problem_of(x)).mu);
  }
  for (std::size_t k = instances.size(); k-- > 0;) {
    EXPECT_EQ(together->solve(problem_of(instances[k])).mu, forward[k]) << k;
    const auto fresh = make_solver(oracle_options());
    EXPECT_EQ(fresh->solve(problem_of(instances[k])).mu, forward[k]) << k;
  }
}

TEST(ApoLpRandom, LowerRungsOfTheLadder) {
  const auto options = oracle_options();
  const auto exact = make_apo_lp_solver(options, LpStatus::kExact);
  const auto relaxed = make_apo_lp_solver(options, LpStatus::kRelaxed);
  const auto min_norm = make_apo_lp_solver(options, LpStatus::kMinNorm);
  const auto last = make_apo_lp_solver(options, LpStatus::kUniformWeights);
  CounterRng rng({.seed = 16});
  for (int k = 0; k < 2000; ++k) {
    const Instance x =
        test::draw(rng, 2 + k % 4, kEnsembles[static_cast<std::size_t>(k / 4 % 4)], k % 4 == 3);
    const auto lp = test::paper_lp(x, options.beta_tolerance, options.ascent_tolerance);
    const double best = test::best_vertex_value(x, lp);
    for (const auto* solver : {exact.get(), relaxed.get()}) {
      const Direction found = const_cast<DirectionSolver*>(solver)->solve(problem_of(x));
      EXPECT_EQ(found.lp_status, solver == exact.get() ? LpStatus::kExact : LpStatus::kRelaxed);
      // Right-hand sides are relaxed by 1e-9 max|C|; near stationarity a multiplier may be 1e3.
      EXPECT_NEAR(test::dot(lp.objective.data(), found.mu.data(), x.loss.size()), best,
                  1e-5 * lp.scale);
      EXPECT_LE(test::violation(x, lp, found.mu), 2e-9);
    }
    const Direction nearest = min_norm->solve(problem_of(x));
    EXPECT_EQ(nearest.lp_status, LpStatus::kMinNorm);
    EXPECT_LE(test::violation(x, lp, nearest.mu), 1e-12) << "the min-norm point is feasible";
    EXPECT_LE(test::dot(lp.objective.data(), nearest.mu.data(), x.loss.size()),
              best + 1e-10 * lp.scale);
    const Direction uniform = last->solve(problem_of(x));
    EXPECT_EQ(uniform.lp_status, LpStatus::kUniformWeights);
    EXPECT_DOUBLE_EQ(uniform.mu[0], 1.0 / static_cast<double>(x.loss.size()));
  }
}

}  // namespace
}  // namespace apo::direction
