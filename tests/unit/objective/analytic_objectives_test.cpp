// Analytic clients behind the interface of the language model's objectives.

#include <cmath>

#include "analytic_oracles.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/objective/analytic_task.hpp"

namespace apo::objective::test {
namespace {

using Vector = std::vector<double>;
using Floats = std::vector<float>;

AnalyticOptions small(const std::string& problem, int m, int dimension) {
  AnalyticOptions options = options_for(problem, m, dimension);
  options.clients = 3;
  options.test_clients = 1;
  options.pairs_per_objective = 6;
  options.shift = 0.4;
  return options;
}

Batch whole_pool(const AnalyticTask& task, int client) {
  const data::Client& owner = task.partition.clients[static_cast<std::size_t>(client)];
  return {owner.id, owner.split == data::ClientSplit::kTest ? owner.evaluate : owner.train};
}

/// w - delta_i in float64, as the losses see the float32 parameters.
Vector seen_by(const AnalyticTask& task, int client, const Floats& w) {
  Vector x(w.begin(), w.end());
  for (std::size_t p = 0; p < x.size(); ++p) {
    x[p] -= task.shift[static_cast<std::size_t>(client)][p];
  }
  return x;
}

TEST(AnalyticObjectives, LossesAndGradientsAreTheProblemsAtTheShiftedPoint) {
  for (const AnalyticOptions& setting : all_settings()) {
    SCOPED_TRACE(setting.problem);
    AnalyticOptions options = setting;
    options.clients = 3;
    options.test_clients = 1;
    options.shift = 0.4;
    const AnalyticTask task = make_analytic_task(options, "dirichlet:1", 2);
    const auto objectives = make_analytic_objectives(task);
    const auto m = static_cast<std::size_t>(options.num_objectives);
    const auto size = static_cast<std::size_t>(options.dimension);
    ASSERT_EQ(objectives->num_objectives(), options.num_objectives);
    ASSERT_EQ(objectives->num_parameters(), options.dimension);
    const Floats w = objectives->initial_parameters(8);
    for (int client = 0; client < 4; ++client) {
      const AnalyticProblem& problem = task.problem_of(ClientId(client));
      const Vector x = seen_by(task, client, w);
      Vector loss(m);
      problem.evaluate(x, loss, {});
      const Vector expected = gradients_at(problem, x);
      Floats gradients(m * size, 7.0F);
      const Batch batch = whole_pool(task, client);
      const Evaluation evaluation = objectives->evaluate(w, batch);
      const Evaluation again = objectives->gradients(w, batch, {}, gradients);
      Vector weights(m);
      for (std::size_t j = 0; j < m; ++j) {
        weights[j] = 0.3 + static_cast<double>(j);
        EXPECT_NEAR(evaluation.loss[j], loss[j], 1e-14);
        EXPECT_EQ(evaluation.loss[j], again.loss[j]);
        EXPECT_TRUE(std::isnan(evaluation.accuracy[j]));
        EXPECT_EQ(evaluation.num_pairs[j], 10);
      }
      Floats combined(size, 7.0F);
      (void)objectives->weighted_gradient(w, batch, {}, weights, combined);
      for (std::size_t p = 0; p < size; ++p) {
        double sum = 0.0;
        for (std::size_t j = 0; j < m; ++j) {
          EXPECT_NEAR(gradients[j * size + p], expected[j * size + p],
                      1e-7 * (1.0 + std::abs(expected[j * size + p])));
          sum += weights[j] * expected[j * size + p];
        }
        EXPECT_NEAR(combined[p], sum, 1e-7 * (1.0 + std::abs(sum)));
      }
    }
  }
}

TEST(AnalyticObjectives, AbsentObjectivesAreNaNWithZeroGradients) {
  const AnalyticTask task = make_analytic_task(small("simplex", 3, 4), "dirichlet:1", 2);
  const auto objectives = make_analytic_objectives(task);
  Batch batch = whole_pool(task, 1);
  batch.pairs[1].clear();
  batch.pairs[2].resize(1);
  Floats gradients(12, 7.0F);
  const Floats w = objectives->initial_parameters(1);
  const Evaluation evaluation = objectives->gradients(w, batch, {}, gradients);
  EXPECT_TRUE(std::isnan(evaluation.loss[1]));
  EXPECT_FALSE(evaluation.present(1));
  EXPECT_TRUE(std::isfinite(evaluation.loss[0]) && std::isfinite(evaluation.loss[2]));
  for (std::size_t p = 0; p < 4; ++p) {
    EXPECT_EQ(gradients[4 + p], 0.0F);
  }
  // Equal pairs: no variance; one pair: nobody knows.
  EXPECT_EQ(evaluation.loss_variance[0], 0.0);
  EXPECT_TRUE(std::isnan(evaluation.loss_variance[1]));
  EXPECT_TRUE(std::isnan(evaluation.loss_variance[2]));
  Floats combined(4);
  Floats alone(4);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  (void)objectives->weighted_gradient(w, batch, {}, Vector{1.0, nan, 2.0}, combined);
  (void)objectives->weighted_gradient(w, batch, {}, Vector{1.0, 0.0, 2.0}, alone);
  EXPECT_EQ(combined, alone);
}

TEST(AnalyticObjectives, WithoutParametersTheStartIsEvaluated) {
  const AnalyticTask task = make_analytic_task(small("simplex", 3, 4), "dirichlet:1", 2);
  const auto objectives = make_analytic_objectives(task);
  const Batch batch = whole_pool(task, 0);
  const Vector at_start = objectives->evaluate(objectives->initial_parameters(2), batch).loss;
  EXPECT_EQ(objectives->evaluate({}, batch).loss, at_start);
  const Vector start = task.problem->start(2);
  const Floats parameters = objectives->initial_parameters(2);
  for (std::size_t p = 0; p < start.size(); ++p) {
    EXPECT_EQ(parameters[p], static_cast<float>(start[p]));
  }
}

TEST(AnalyticObjectives, JitteredPairsDifferAndABatchIsTheirMean) {
  for (const char* problem : {"simplex", "epo3", "dpo_linear"}) {
    SCOPED_TRACE(problem);
    AnalyticOptions options = small(problem, 3, 4);
    options.pair_jitter = 0.2;
    const AnalyticTask task = make_analytic_task(options, "dirichlet:1", 2);
    const auto objectives = make_analytic_objectives(task);
    const Floats w = objectives->initial_parameters(1);
    const Batch whole = whole_pool(task, 3);
    Floats gradients(12);
    const Evaluation mean = objectives->gradients(w, whole, {}, gradients);
    for (std::size_t j = 0; j < 3; ++j) {
      Vector loss;
      Vector gradient(4, 0.0);
      for (const int pair : whole.pairs[j]) {
        Batch one{whole.client, {{}, {}, {}}};
        one.pairs[j] = {pair};
        Floats row(12);
        loss.push_back(objectives->gradients(w, one, {}, row).loss[j]);
        EXPECT_EQ(loss.back(), objectives->evaluate(w, one).loss[j]);  // drawn once and for all
        for (std::size_t p = 0; p < 4; ++p) {
          gradient[p] += static_cast<double>(row[j * 4 + p]) / 6.0;
        }
      }
      ASSERT_EQ(loss.size(), 6U);
      double average = 0.0;
      for (const double entry : loss) {
        average += entry / 6.0;
      }
      double variance = 0.0;
      for (const double entry : loss) {
        variance += (entry - average) * (entry - average) / 5.0;
      }
      EXPECT_NEAR(mean.loss[j], average, 1e-14);
      EXPECT_NEAR(mean.loss_variance[j], variance, 1e-13);
      EXPECT_GT(variance, 1e-5);
      for (std::size_t p = 0; p < 4; ++p) {
        EXPECT_NEAR(gradients[j * 4 + p], gradient[p], 1e-6);
      }
      // A pair that is drawn twice counts twice.
      Batch twice{whole.client, {{}, {}, {}}};
      twice.pairs[j] = {whole.pairs[j][0], whole.pairs[j][0], whole.pairs[j][1]};
      EXPECT_NEAR(objectives->evaluate(w, twice).loss[j], (2.0 * loss[0] + loss[1]) / 3.0, 1e-14);
    }
  }
}

TEST(AnalyticObjectives, JitterLiftsAQuadraticByHalfItsVariance) {
  AnalyticOptions options = small("simplex", 3, 4);
  options.pairs_per_objective = 20000;
  options.pair_jitter = 0.3;
  const AnalyticTask noisy = make_analytic_task(options, "dirichlet:1", 2);
  options.pair_jitter = 0.0;
  const AnalyticTask clean = make_analytic_task(options, "dirichlet:1", 2);
  const Floats w = make_analytic_objectives(clean)->initial_parameters(1);
  const Batch batch = whole_pool(noisy, 0);
  const Evaluation expected = make_analytic_objectives(clean)->evaluate(w, batch);
  const Evaluation observed = make_analytic_objectives(noisy)->evaluate(w, batch);
  for (std::size_t j = 0; j < 3; ++j) {
    const double error = std::sqrt(observed.loss_variance[j] / 20000.0);
    EXPECT_NEAR(observed.loss[j], expected.loss[j] + 0.5 * 4.0 * 0.09, 5.0 * error);
  }
}

TEST(AnalyticObjectives, ConstantsAndOptimaAreTheTasks) {
  const AnalyticTask task = make_analytic_task(small("simplex", 3, 4), "dirichlet:1", 2);
  const auto objectives = make_analytic_objectives(task);
  EXPECT_EQ(objectives->smoothness(), 1.0);
  for (const data::Client& client : task.partition.clients) {
    const ParetoPoint own = task.optimum(client.id, client.preference);
    EXPECT_EQ(objectives->chebyshev_optimum(client.id, client.preference), own.chebyshev);
    // In float32 parameters the client's own losses reach it.
    const Floats w(own.x.begin(), own.x.end());
    const Vector loss =
        objectives->evaluate(w, whole_pool(task, static_cast<int>(client.id.index()))).loss;
    double largest = 0.0;
    for (std::size_t j = 0; j < 3; ++j) {
      largest = std::max(largest, client.preference[j] * loss[j]);
    }
    EXPECT_NEAR(largest, own.chebyshev, 2e-7);
  }
  const AnalyticTask dpo = make_analytic_task(small("dpo_linear", 2, 3), "dirichlet:1", 2);
  double largest = 0.0;
  for (const auto& own : dpo.own_problem) {
    largest = std::max(largest, own->smoothness());
  }
  EXPECT_EQ(make_analytic_objectives(dpo)->smoothness(), largest);
}

TEST(AnalyticObjectives, WrongSizesAndForeignPairsAreRefused) {
  const AnalyticTask task = make_analytic_task(small("simplex", 3, 4), "dirichlet:1", 2);
  const auto objectives = make_analytic_objectives(task);
  const Floats w = objectives->initial_parameters(1);
  EXPECT_THROW((void)objectives->evaluate(Floats(3), whole_pool(task, 0)), Error);
  Batch foreign = whole_pool(task, 0);
  foreign.client = ClientId(1);
  EXPECT_THROW((void)objectives->evaluate(w, foreign), Error);
  foreign.client = ClientId(4);
  EXPECT_THROW((void)objectives->evaluate(w, foreign), Error);
  Floats gradients(5);
  EXPECT_THROW((void)objectives->gradients(w, whole_pool(task, 0), {}, gradients), Error);
}

}  // namespace
}  // namespace apo::objective::test
