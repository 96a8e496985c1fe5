// Losses, gradients, smoothness, starts and options of the problems of algorithms.md section 7.

#include <cmath>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::objective::test {
namespace {

std::string describe(const AnalyticOptions& options) {
  return options.problem + ", m = " + std::to_string(options.num_objectives) +
         ", P = " + std::to_string(options.dimension);
}

std::vector<double> random_point(CounterRng& rng, int dimension) {
  std::vector<double> x(static_cast<std::size_t>(dimension));
  for (double& entry : x) {
    entry = rng.normal() / std::sqrt(static_cast<double>(dimension));
  }
  return x;
}

TEST(AnalyticProblem, GradientsAgreeWithFiniteDifferences) {
  CounterRng rng({.seed = 1, .purpose = Purpose::kTest});
  double worst = 0.0;
  for (const AnalyticOptions& options : all_settings()) {
    SCOPED_TRACE(describe(options));
    const auto problem = make_analytic_problem(options, 3);
    ASSERT_EQ(problem->name(), options.problem);
    ASSERT_EQ(problem->num_objectives(), options.num_objectives);
    ASSERT_EQ(problem->dimension(), options.dimension);
    for (int draw = 0; draw < 5; ++draw) {
      const std::vector<double> x = random_point(rng, options.dimension);
      const std::vector<double> gradients = gradients_at(*problem, x);
      double scale = 0.1;
      for (const double entry : gradients) {
        scale = std::max(scale, std::abs(entry));
      }
      for (std::size_t j = 0; j < static_cast<std::size_t>(options.num_objectives); ++j) {
        for (std::size_t p = 0; p < x.size(); ++p) {
          const double expected = finite_difference(*problem, x, j, p);
          const double error = std::abs(gradients[j * x.size() + p] - expected) / scale;
          worst = std::max(worst, error);
          ASSERT_LE(error, 1e-9) << "loss " << j << ", coordinate " << p;
        }
      }
    }
  }
  RecordProperty("worst_relative_error", scientific(worst));
}

TEST(AnalyticProblem, LossesDoNotDependOnWhetherGradientsAreAskedFor) {
  CounterRng rng({.seed = 2, .purpose = Purpose::kTest});
  for (const AnalyticOptions& options : all_settings()) {
    SCOPED_TRACE(describe(options));
    const auto problem = make_analytic_problem(options, 3);
    const std::vector<double> x = random_point(rng, options.dimension);
    std::vector<double> loss(static_cast<std::size_t>(options.num_objectives));
    std::vector<double> again = loss;
    std::vector<double> gradients(loss.size() * x.size());
    std::vector<double> row(x.size());
    problem->evaluate(x, loss, {});
    problem->evaluate(x, again, gradients);
    EXPECT_EQ(loss, again);
    for (std::size_t j = 0; j < loss.size(); ++j) {
      EXPECT_EQ(problem->objective(static_cast<int>(j), x, row), loss[j]);
      EXPECT_TRUE(std::equal(row.begin(), row.end(),
                             gradients.begin() + static_cast<std::ptrdiff_t>(j * x.size())));
    }
  }
}

TEST(AnalyticProblem, GradientDifferencesRespectTheSmoothnessConstant) {
  CounterRng rng({.seed = 3, .purpose = Purpose::kTest});
  int bounded = 0;
  for (const AnalyticOptions& options : all_settings()) {
    SCOPED_TRACE(describe(options));
    const auto problem = make_analytic_problem(options, 3);
    const double bound = problem->smoothness();
    if (std::isnan(bound)) {
      EXPECT_TRUE(options.problem.ends_with("_front") || options.problem == "flat_stationary");
      continue;
    }
    ++bounded;
    double largest = 0.0;
    for (int draw = 0; draw < 300; ++draw) {
      const std::vector<double> x = random_point(rng, options.dimension);
      std::vector<double> y = random_point(rng, options.dimension);
      const double closeness = std::pow(10.0, -4.0 * rng.uniform());
      double distance = 0.0;
      for (std::size_t p = 0; p < x.size(); ++p) {
        y[p] = x[p] + closeness * (y[p] - x[p]);
        distance += (x[p] - y[p]) * (x[p] - y[p]);
      }
      const std::vector<double> at_x = gradients_at(*problem, x);
      const std::vector<double> at_y = gradients_at(*problem, y);
      for (std::size_t j = 0; j < static_cast<std::size_t>(options.num_objectives); ++j) {
        double squared = 0.0;
        for (std::size_t p = 0; p < x.size(); ++p) {
          const double difference = at_x[j * x.size() + p] - at_y[j * x.size() + p];
          squared += difference * difference;
        }
        largest = std::max(largest, std::sqrt(squared / distance));
      }
    }
    EXPECT_LE(largest, bound * (1.0 + 1e-9) + 1e-12);
    if (options.problem == "quadratic" || options.problem == "simplex" ||
        options.problem == "consensus") {
      EXPECT_NEAR(largest, bound, 1e-9);  // isotropic: every pair of points attains it
    }
  }
  EXPECT_GE(bounded, 12);
}

TEST(AnalyticProblem, SmoothnessOfAnisotropicQuadraticsIsTheLargestEigenvalue) {
  AnalyticOptions options = options_for("anisotropic", 2, 6);
  options.condition = 25.0;
  const auto problem = make_analytic_problem(options);
  // Power iteration on the difference of gradients, which is H_j times the step.
  for (std::size_t j = 0; j < 2; ++j) {
    std::vector<double> v(6, 1.0);
    v[2] = -0.3;
    double value = 0.0;
    for (int step = 0; step < 2000; ++step) {
      const std::vector<double> at_v = gradients_at(*problem, v);
      const std::vector<double> at_0 = gradients_at(*problem, std::vector<double>(6, 0.0));
      double norm = 0.0;
      for (std::size_t p = 0; p < 6; ++p) {
        v[p] = at_v[j * 6 + p] - at_0[j * 6 + p];
        norm += v[p] * v[p];
      }
      value = std::sqrt(norm);
      for (double& entry : v) {
        entry /= value;
      }
    }
    EXPECT_NEAR(value, problem->smoothness(), 1e-9) << "H_" << j + 1;
    EXPECT_NEAR(value, 25.0, 1e-9);
  }
}

TEST(AnalyticProblem, StartsAreSeededAndAwayFromParetoPoints) {
  for (const AnalyticOptions& options : all_settings()) {
    SCOPED_TRACE(describe(options));
    const auto problem = make_analytic_problem(options, 3);
    const auto m = static_cast<std::size_t>(options.num_objectives);
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
      const std::vector<double> x = problem->start(seed);
      ASSERT_EQ(x.size(), static_cast<std::size_t>(options.dimension));
      EXPECT_EQ(x, problem->start(seed));
      const std::vector<double> gradients = gradients_at(*problem, x);
      std::vector<std::vector<double>> rows;
      for (std::size_t j = 0; j < m; ++j) {
        rows.emplace_back(gradients.begin() + static_cast<std::ptrdiff_t>(j * x.size()),
                          gradients.begin() + static_cast<std::ptrdiff_t>((j + 1) * x.size()));
        double squared = 0.0;
        for (const double entry : rows.back()) {
          squared += entry * entry;
        }
        if (options.problem == "flat_stationary") {
          EXPECT_EQ(squared, 0.0);
        } else {
          EXPECT_GT(std::sqrt(squared), 1e-3) << "gradient " << j;
        }
      }
      if (options.problem != "flat_stationary" && options.problem != "v_shape") {
        EXPECT_GT(min_norm_of_hull(rows), 1e-3);  // Pareto points have 0 in the hull
      }
    }
  }
  const auto problem = make_analytic_problem(options_for("simplex", 3, 8));
  EXPECT_NE(problem->start(1), problem->start(2));
}

/// The message of the Error(kConfig) that `options` raise.
std::string refusal(const AnalyticOptions& options) {
  try {
    (void)make_analytic_problem(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kConfig);
    return error.what();
  }
  return "accepted";
}

TEST(AnalyticOptions, RefusalsNameTheKeyTheValueAndWhatIsPossible) {
  const auto expect = [](const AnalyticOptions& options, const std::string& message) {
    EXPECT_EQ(refusal(options), message);
  };
  expect(options_for("simplx", 3, 8),
         "task.analytic.problem = simplx: expected one of epo2, epo3, quadratic, simplex, "
         "anisotropic, linear_front, concave_front, convex_front, flat_stationary, v_shape, "
         "dpo_linear, consensus; did you mean 'simplex'?");
  expect(options_for("epo2", 3, 8), "task.analytic.num_objectives = 3: epo2 has 2");
  expect(options_for("simplex", 9, 9), "task.analytic.num_objectives = 9: simplex has 1 to 8");
  expect(options_for("consensus", 2, 9), "task.analytic.num_objectives = 2: consensus has 1");
  expect(options_for("epo3", 3, 5),
         "task.analytic.dimension = 5: epo3 has an even number of parameters, at least 2");
  expect(options_for("v_shape", 2, 8), "task.analytic.dimension = 8: v_shape has 1 parameter");
  expect(options_for("simplex", 3, 2),
         "task.analytic.dimension = 2: with 3 objectives simplex has 3 to 1000000 parameters (one "
         "per objective)");
  expect(options_for("convex_front", 3, 3),
         "task.analytic.dimension = 3: with 3 objectives convex_front has 4 to 1000000 parameters "
         "(one per objective, and one beside the front)");
  expect(options_for("anisotropic", 2, 129),
         "task.analytic.dimension = 129: with 2 objectives anisotropic has 1 to 128 parameters "
         "(its optimum needs a dense eigenvalue problem)");
  AnalyticOptions options = options_for("quadratic", 2, 3);
  options.curvature = {1.0, 2.0, 3.0};
  expect(options,
         "task.analytic.curvature = 1,2,3: expected one number for each of the 2 objectives, or "
         "none");
  options.curvature = {1.0, 0.0};
  expect(options, "task.analytic.curvature = 1,0: expected finite numbers above 0");
  options = options_for("simplex", 3, 3);
  options.offsets = {0.1, 0.1, 0.1};
  expect(options, "task.analytic.offsets = 0.1,0.1,0.1: simplex has no such key; leave it empty");
  options = options_for("simplex", 3, 3, -0.5);
  expect(options, "task.analytic.offset = -0.5: expected a finite number of at least 0");
  options = options_for("simplex", 3, 3);
  options.radius = 0.0;
  expect(options, "task.analytic.radius = 0: expected a finite number above 0");
  options = options_for("simplex", 3, 3);
  options.pairs_per_objective = 0;
  expect(options, "task.analytic.pairs_per_objective = 0: expected at least 1");
}

TEST(AnalyticOptions, EveryFieldHasAKeyThatReadsAndWritesIt) {
  AnalyticOptions options;
  FieldTable table;
  declare(table, options);
  const auto set = [&](const std::string& key, const std::string& text) {
    const Field* field = table.find("task.analytic." + key);
    ASSERT_NE(field, nullptr) << key;
    EXPECT_EQ(field->set(text), std::nullopt) << key;
    EXPECT_EQ(field->get(), text) << key;
  };
  set("problem", "quadratic");
  set("num_objectives", "2");
  set("dimension", "4");
  set("offset", "0.25");
  set("radius", "2");
  set("curvature", "0.5,3");
  set("offsets", "0,0.1");
  set("condition", "5");
  set("dpo_beta", "0.5");
  set("ridge", "0.125");
  set("clients", "7");
  set("test_clients", "0");
  set("pairs_per_objective", "3");
  set("shift", "0.5");
  set("pair_jitter", "0.75");
  EXPECT_EQ(table.fields().size(), 15U);
  EXPECT_EQ(options.curvature, (std::vector<double>{0.5, 3.0}));
  EXPECT_EQ(options.pair_jitter, 0.75);
  // The names that the table offers are those that the problems answer to.
  const Field* problem = table.find("task.analytic.problem");
  std::string names = problem->type + "|";
  for (std::size_t end = 0; (end = names.find('|')) != std::string::npos; names.erase(0, end + 1)) {
    options.problem = names.substr(0, end);
    bool made = false;
    for (const AnalyticOptions& setting : all_settings()) {
      made = made || (setting.problem == options.problem && make_analytic_problem(setting));
    }
    EXPECT_TRUE(made) << options.problem;
  }
}

}  // namespace
}  // namespace apo::objective::test
