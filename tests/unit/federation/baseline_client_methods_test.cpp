// fsmgda and fedmgda_plus against a plain float64 re-implementation of algorithms.md 3.6.

#include "baseline_fixture.hpp"
#include <gtest/gtest.h>

namespace apo::federation {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

Vector one_objective(std::size_t m, std::size_t j) {
  Vector e(m, 0.0);
  e[j] = 1.0;
  return e;
}

void expect_near(const std::vector<float>& actual, const Vector& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_NEAR(static_cast<double>(actual[k]), expected[k], tolerance) << "entry " << k;
  }
}

Vector largest_entries(Vector values, std::size_t keep) {
  Vector sizes = values;
  for (double& x : sizes) {
    x = std::abs(x);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  for (double& x : values) {
    x = std::abs(x) >= sizes[keep - 1] ? x : 0.0;
  }
  return values;
}

/// One round of FSMGDA; returns the server's weights.
Vector fsmgda_round(const Federation& f, Vector& w) {
  const auto keep = static_cast<std::size_t>(f.baseline.update_topk * static_cast<double>(f.p()));
  std::vector<Vector> mean(f.m(), Vector(f.p(), 0.0));
  for (std::size_t j = 0; j < f.m(); ++j) {
    double count = 0.0;
    for (const int id : f.participants) {
      count += has(f, id, j) ? 1.0 : 0.0;
    }
    for (const int id : f.participants) {
      if (has(f, id, j)) {
        const Vector delta = local_delta(f, id, one_objective(f.m(), j), w,
                                         f.baseline.update_normalisation == "iteration");
        axpy(1.0 / count, largest_entries(delta, keep), mean[j]);
      }
    }
    if (f.baseline.update_normalisation == "update") {
      const double length = std::sqrt(dot(mean[j], mean[j]));
      for (double& x : mean[j]) {
        x /= length;
      }
    }
  }
  const Vector weights = min_norm_oracle(mean);
  for (std::size_t j = 0; j < f.m(); ++j) {
    axpy(f.phase1.server_learning_rate * weights[j], mean[j], w);
  }
  return weights;
}

struct FsmgdaCase {
  const char* optimizer;
  const char* normalisation;
  double topk;
};

class Fsmgda : public ::testing::TestWithParam<FsmgdaCase> {};

TEST_P(Fsmgda, EqualsTheSerialLoop) {
  Federation f = random_federation(3, 5);
  f.phase1.optimizer = GetParam().optimizer;
  f.phase1.server_learning_rate = 0.75;
  f.baseline.update_normalisation = GetParam().normalisation;
  f.baseline.update_topk = GetParam().topk;
  Session session(f, "fsmgda");

  const Outcome outcome = session.run(3);

  Vector w(f.p(), 0.0);
  for (std::size_t r = 0; r < 3; ++r) {
    const Vector weights = fsmgda_round(f, w);
    for (std::size_t j = 0; j < f.m(); ++j) {
      EXPECT_NEAR(outcome.reports[r].server_weights[j], weights[j], 1e-5) << "round " << r;
    }
  }
  expect_near(outcome.parameters, w, 3e-6);
}

INSTANTIATE_TEST_SUITE_P(Options, Fsmgda,
                         ::testing::Values(FsmgdaCase{"sgd", "none", 1.0},
                                           FsmgdaCase{"adamw", "none", 1.0},
                                           FsmgdaCase{"sgd", "iteration", 1.0},
                                           FsmgdaCase{"sgd", "update", 1.0},
                                           FsmgdaCase{"sgd", "none", 0.4}));

TEST(FsmgdaRecords, NumberTheStepsOfAllObjectivesInOneSequence) {
  const Federation f = random_federation(3, 5);
  Session session(f, "fsmgda");

  const RoundReport report = session.run(1).reports[0];

  ASSERT_EQ(report.steps.size(), 4U * 9U + 6U);  // client 3 lacks objective 1
  const Vector zero(f.p(), 0.0);
  for (const StepRecord& step : report.steps) {
    const auto objective = static_cast<std::size_t>(step.step / 3);
    EXPECT_NEAR(step.mu[objective], 1.0, 0.0);
    EXPECT_EQ(step.num_missing, 2);
    if (step.step % 3 == 0) {
      EXPECT_NEAR(step.loss[objective], loss_of(f, step.client, objective, zero), 1e-6);
    }
  }
  for (std::size_t j = 0; j < 3; ++j) {
    double sum = 0.0;
    double pairs = 0.0;
    for (const int id : f.participants) {
      const auto n =
          static_cast<double>(f.partition.clients[static_cast<std::size_t>(id)].num_pairs());
      sum += has(f, id, j) ? n * loss_of(f, id, j, zero) : 0.0;
      pairs += has(f, id, j) ? n : 0.0;
    }
    EXPECT_NEAR(report.mean_loss[j], sum / pairs, 1e-6);
  }
}

/// Deltas of all participants, scaled to norm 1.
std::vector<Vector> unit_deltas(const Federation& f, const Vector& w) {
  std::vector<Vector> result;
  for (const int id : f.participants) {
    const data::Client& client = f.partition.clients[static_cast<std::size_t>(id)];
    Vector delta = local_delta(f, id, client.preference, w);
    const double length = std::sqrt(dot(delta, delta));
    for (double& x : delta) {
      x /= length > 0.0 ? length : 1.0;
    }
    result.push_back(delta);
  }
  return result;
}

Vector shares(const Federation& f) {
  Vector share;
  for (const int id : f.participants) {
    const data::Client& client = f.partition.clients[static_cast<std::size_t>(id)];
    share.push_back(f.phase1.aggregation == "uniform" ? 1.0
                                                      : static_cast<double>(client.num_pairs()));
  }
  const double total = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& x : share) {
    x /= total;
  }
  return share;
}

void fedmgda_round(const Federation& f, Vector& w) {
  const std::vector<Vector> units = unit_deltas(f, w);
  Vector low = shares(f);
  Vector high = low;
  for (std::size_t i = 0; i < low.size(); ++i) {
    low[i] = std::max(0.0, low[i] - f.baseline.fairness);
    high[i] = std::min(1.0, high[i] + f.baseline.fairness);
  }
  const Vector weights = box_oracle(gram_of_rows(units), low, high, 6000);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    axpy(f.phase1.server_learning_rate * weights[i], units[i], w);
  }
}

class FedmgdaPlus : public ::testing::TestWithParam<double> {};

// Five clients in five dimensions, then seven in three, where the Gram matrix is singular and only
// the combination is unique.
TEST_P(FedmgdaPlus, EqualsTheSerialLoop) {
  for (const int p : {5, 3}) {
    Federation f = random_federation(2, p);
    f.baseline.fairness = GetParam();
    f.phase1.server_learning_rate = 0.5;
    if (p == 3) {
      f.participants = {0, 1, 2, 3, 4, 5, 6};
      f.phase1.aggregation = "uniform";
    }
    Session session(f, "fedmgda_plus");

    const Outcome outcome = session.run(3);

    Vector w(f.p(), 0.0);
    for (int r = 0; r < 3; ++r) {
      fedmgda_round(f, w);
    }
    expect_near(outcome.parameters, w, 2e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Fairness, FedmgdaPlus, ::testing::Values(0.0, 0.05, 0.1, 1.0));

TEST(FedmgdaPlusLimits, ZeroIsTheWeightedMeanOfNormalisedDeltas) {
  Federation f = random_federation(2, 5);
  f.baseline.fairness = 0.0;
  Session session(f, "fedmgda_plus");

  const Outcome outcome = session.run(1);

  Vector mean(f.p(), 0.0);
  const std::vector<Vector> units = unit_deltas(f, mean);
  const Vector share = shares(f);
  Vector w(f.p(), 0.0);
  for (std::size_t i = 0; i < units.size(); ++i) {
    axpy(share[i], units[i], w);
  }
  expect_near(outcome.parameters, w, 1e-6);
}

// KKT of the min-norm point: u_i'd >= ||d||^2 for all clients, with equality for some.
TEST(FedmgdaPlusLimits, OneIsMgdaOverTheClients) {
  Federation f = random_federation(2, 5);
  f.baseline.fairness = 1.0;
  Session session(f, "fedmgda_plus");

  const Outcome outcome = session.run(1);

  const Vector d = widen(outcome.parameters);  // the start is 0
  ASSERT_GT(dot(d, d), 1e-3);
  double smallest = 1.0;
  for (const Vector& unit : unit_deltas(f, Vector(f.p(), 0.0))) {
    EXPECT_GE(dot(unit, d), dot(d, d) - 1e-6);
    smallest = std::min(smallest, dot(unit, d));
  }
  EXPECT_NEAR(smallest, dot(d, d), 1e-6);
}

// A client that is at its own optimum sends 0; nothing is divided by its norm.
TEST(FedmgdaPlusLimits, ZeroDeltaIsNotNormalised) {
  Federation f = random_federation(1, 2);
  f.participants = {0, 1};
  f.centers[0] = {{0.0F, 0.0F}};
  f.centers[1] = {{1.0F, 0.0F}};
  f.baseline.fairness = 0.0;
  Session session(f, "fedmgda_plus");

  const Outcome outcome = session.run(1);

  EXPECT_NEAR(outcome.parameters[0], 5.0 / 8.0, 1e-6);  // 3 and 5 pairs
  EXPECT_EQ(outcome.parameters[1], 0.0F);
  EXPECT_EQ(outcome.reports[0].num_failed, 0);
}

}  // namespace
}  // namespace apo::federation
