// One client on analytic tasks through everything that a run uses - float32 parameters, batches,
// the LP, plain steps - reaches the Pareto point of its preference (algorithms.md 1.3 and 10.4).

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "apo/federation/local_training.hpp"
#include "apo/objective/analytic_task.hpp"

namespace apo::federation {
namespace {

objective::AnalyticOptions options_for(const std::string& problem, int m, int dimension) {
  objective::AnalyticOptions options;
  options.problem = problem;
  options.num_objectives = m;
  options.dimension = dimension;
  options.clients = 1;
  options.test_clients = 0;
  options.shift = 0.3;  // the client's own optimum, not the problem's
  return options;
}

struct Outcome {
  double gap = 0.0;  ///< (psi - psi*) / psi*
  LocalResult last;
};

/// `calls` rounds of one client that aggregates with itself.
Outcome descend(const objective::AnalyticOptions& options, const std::vector<double>& preference,
                double beta_tolerance, int calls, int steps,
                const std::function<double(int)>& rate) {
  objective::AnalyticTask task = objective::make_analytic_task(options, "dirichlet:5", 3);
  data::Client& client = task.partition.clients.at(0);
  client.preference = preference;
  const auto objectives = objective::make_analytic_objectives(task);
  direction::DirectionOptions direction;
  direction.beta_tolerance = beta_tolerance;
  const auto solver = direction::make_solver(direction);
  LocalOptions local;
  local.optimizer = "sgd";
  local.steps = steps;
  Outcome outcome;
  std::vector<float> parameters = objectives->initial_parameters(3);
  for (int k = 0; k < calls; ++k) {
    local.learning_rate = rate(k);
    outcome.last = train_client(*objectives, *solver, client, client.train,
                                task.partition.text_of_pair, parameters, local,
                                {3, Purpose::kBatch, 0, static_cast<std::uint64_t>(k), 0}, 0, {});
    EXPECT_TRUE(outcome.last.finite);
    parameters = outcome.last.parameters;
  }
  const objective::Evaluation end = objectives->evaluate(parameters, {client.id, client.train});
  double chebyshev = 0.0;
  for (std::size_t j = 0; j < preference.size(); ++j) {
    chebyshev = std::max(chebyshev, preference[j] * end.loss[j]);
  }
  const double best = objectives->chebyshev_optimum(client.id, preference);
  outcome.gap = (chebyshev - best) / best;
  return outcome;
}

constexpr double kFloat32 = 2e-6;  // relative noise of losses at rounded parameters

class TwoObjectives : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(TwoObjectives, ReachesItsParetoPointWithinTheToleranceOnBeta) {
  const auto options = options_for(GetParam().first, 2, GetParam().second);
  for (const double tolerance : {1e-4, 1e-6, 1e-10}) {
    for (const double first : {0.35, 0.5, 0.6}) {
      const double gap =
          descend(options, {first, 1.0 - first}, tolerance, 1, 4000, [](int) { return 0.1; }).gap;
      EXPECT_GE(gap, -kFloat32);
      EXPECT_LE(gap, 1.2 * std::sqrt(2.0 * 2.0 * tolerance) + kFloat32)
          << "lambda_1 = " << first << ", beta_tol = " << tolerance;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Analytic, TwoObjectives,
                         testing::Values(std::pair{"epo2", 20}, std::pair{"quadratic", 4},
                                         std::pair{"simplex", 5}, std::pair{"anisotropic", 5},
                                         std::pair{"linear_front", 4},
                                         std::pair{"concave_front", 4},
                                         std::pair{"convex_front", 4}),
                         [](const auto& name) { return std::string(name.param.first); });

TEST(ManyObjectives, DecayingStepsReachTheParetoPoint) {
  const std::vector<std::pair<int, std::vector<double>>> cases = {{3, {0.45, 0.35, 0.2}},
                                                                  {4, {0.3, 0.28, 0.22, 0.2}}};
  for (const auto& [m, preference] : cases) {
    const double gap =
        descend(options_for("simplex", m, m + 3), preference, 1e-8, 1000, 10, [](int k) {
          return 0.3 / std::sqrt(1.0 + 10.0 * k);
        }).gap;
    EXPECT_LE(gap, 5e-3) << m << " objectives";
    EXPECT_GE(gap, -kFloat32);
  }
}

TEST(ManyObjectives, ConstantStepsEndWithinTheStepSize) {
  for (const double rate : {0.1, 0.02}) {
    const double gap =
        descend(options_for("simplex", 3, 6), {0.45, 0.35, 0.2}, 1e-8, 1, 5000, [&](int) {
          return rate;
        }).gap;
    EXPECT_LE(gap, 1.5 * rate);
  }
}

TEST(ZeroMinimum, TheTrapIsReportedNotACrash) {
  // Losses that touch 0 and a start behind the second centre: the iterate runs to that centre and
  // beta to log 2 (algorithms.md 1.5). The records say so: J is empty, the direction e_2.
  auto options = options_for("quadratic", 2, 2);
  options.offset = 0.0;
  options.shift = 0.0;
  objective::AnalyticTask task = objective::make_analytic_task(options, "dirichlet:5", 3);
  const data::Client& client = task.partition.clients.at(0);
  const auto objectives = objective::make_analytic_objectives(task);
  direction::DirectionOptions direction;
  direction.loss_floor = 1e-300;
  const auto solver = direction::make_solver(direction);
  const std::vector<double> one = task.problem->pareto_point(std::vector<double>{0.999, 0.001}).x;
  const std::vector<double> two = task.problem->pareto_point(std::vector<double>{0.001, 0.999}).x;
  std::vector<float> start;
  for (std::size_t k = 0; k < one.size(); ++k) {  // on the line through the centres, behind two
    start.push_back(static_cast<float>(two[k] + 0.5 * (two[k] - one[k])));
  }
  LocalOptions local;
  local.optimizer = "sgd";
  local.learning_rate = 0.1;
  local.steps = 60;
  const LocalResult result =
      train_client(*objectives, *solver, client, client.train, task.partition.text_of_pair, start,
                   local, {3, Purpose::kBatch, 0, 0, 0}, 0, {});
  ASSERT_TRUE(result.finite);
  const StepRecord& last = result.steps.back();
  EXPECT_GT(last.uniformity, 0.9 * std::log(2.0));
  EXPECT_EQ(last.num_aligned, 0);
  EXPECT_LT(last.gamma, 0.0);
  for (const float x : result.parameters) {
    EXPECT_TRUE(std::isfinite(x));
  }
}

}  // namespace
}  // namespace apo::federation
