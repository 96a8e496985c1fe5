// server_mgda and fedcmoo against a plain float64 re-implementation of algorithms.md 3.6.

#include "baseline_server_oracle.hpp"
#include <gtest/gtest.h>

namespace apo::federation {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

class ServerCentric : public ::testing::TestWithParam<const char*> {};

TEST_P(ServerCentric, MgdaEqualsTheSerialLoop) {
  Federation f = random_federation(3, 5);
  f.phase1.optimizer = GetParam();
  f.phase1.server_learning_rate = 0.75;
  Session session(f, "server_mgda");

  const Outcome outcome = session.run(3);

  Vector w(f.p(), 0.0);
  for (int r = 0; r < 3; ++r) {
    const Vector weights = min_norm_oracle(mean_gradients(f, w));
    expect_near(outcome.reports[static_cast<std::size_t>(r)].server_weights, weights, 1e-5,
                "weights of round " + std::to_string(r));
    server_centric_round(f, weights, w);
  }
  expect_near(widen(outcome.parameters), w, 2e-6, "parameters");
}

TEST_P(ServerCentric, FedcmooTracksTheWeightsFromRoundToRound) {
  Federation f = random_federation(3, 5);
  f.phase1.optimizer = GetParam();
  Session session(f, "fedcmoo");

  const Outcome outcome = session.run(4);

  Vector w(f.p(), 0.0);
  Vector weights(f.m(), 1.0 / static_cast<double>(f.m()));
  for (int r = 0; r < 4; ++r) {
    const Vector before = weights;
    weights = tracked(f, gram_of_rows(mean_gradients(f, w)), weights);
    EXPECT_GT(std::abs(weights[0] - before[0]), 1e-4) << "the weights do not move";
    expect_near(outcome.reports[static_cast<std::size_t>(r)].server_weights, weights, 1e-6,
                "weights of round " + std::to_string(r));
    server_centric_round(f, weights, w);
  }
  expect_near(outcome.memory, weights, 1e-6, "memory");
  expect_near(widen(outcome.parameters), w, 1e-6, "parameters");
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ServerCentric, ::testing::Values("sgd", "adamw"));

// An objective that no participant has gets no weight and keeps its share of the memory.
TEST(Fedcmoo, ObjectiveThatNobodyHas) {
  Federation f = random_federation(3, 5);
  f.participants = {3};
  Session session(f, "fedcmoo");

  const Outcome outcome = session.run(1);

  const std::vector<double>& weights = outcome.reports[0].server_weights;
  EXPECT_EQ(weights[1], 0.0);
  EXPECT_NEAR(weights[0] + weights[2], 1.0, 1e-12);
  EXPECT_NEAR(outcome.memory[1], 1.0 / 3.0, 1e-12);
  EXPECT_NEAR(outcome.memory[0], weights[0] * 2.0 / 3.0, 1e-12);
}

// The server puts all weight on an objective that a client lacks: the client stays where it is.
TEST(ServerMgda, ClientWithoutAWeightedObjective) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    Federation f;
    f.centers = {{{4.0F, 0.0F}, {0.0F, 0.0F}}, {{0.0F, 0.0F}, {1.0F, 0.0F}}};
    f.partition = make_clients({{0.5, 0.5}, {0.5, 0.5}}, {4, 4});
    f.partition.clients[0].train[1].clear();
    f.partition.clients[1].train[0].clear();
    f.phase1.optimizer = optimizer;
    f.phase1.local_steps = 1;
    f.phase1.gradient_clip = 0.0;
    f.participants = {0, 1};

    const Outcome outcome = Session(f, "server_mgda").run(1);

    EXPECT_NEAR(outcome.reports[0].server_weights[1], 1.0, 1e-12);  // the shorter of two parallels
    EXPECT_EQ(outcome.reports[0].num_failed, 0);
    EXPECT_NEAR(outcome.parameters[0], 0.125 / 2.0, 1e-6);  // a step of 1/8 by one of two clients
    EXPECT_EQ(outcome.parameters[1], 0.0F);
  }
}

// A client that breaks down after its gradients were used counts in the weights, not in the mean.
TEST(Fedcmoo, LateFailureIsLeftOutOfTheMean) {
  Federation f = random_federation(2, 4);
  f.participants = {0, 2, 4};
  const auto poisoned = [](int client, std::span<const float> w) {
    return client == 2 && std::any_of(w.begin(), w.end(), [](float x) { return x != 0.0F; });
  };
  Session session(f, "fedcmoo", false, poisoned);

  const Outcome outcome = session.run(1);

  const Vector weights =
      tracked(f, gram_of_rows(mean_gradients(f, Vector(4, 0.0))), Vector(2, 0.5));
  expect_near(outcome.reports[0].server_weights, weights, 1e-6, "weights");
  EXPECT_EQ(outcome.reports[0].num_failed, 1);
  f.participants = {0, 4};
  Vector w(4, 0.0);
  server_centric_round(f, weights, w);
  expect_near(widen(outcome.parameters), w, 1e-6, "parameters");
}

TEST(Fedcmoo, RecordsTheWeightsOfEveryStep) {
  const Federation f = random_federation(3, 5);
  Session session(f, "fedcmoo");

  const Outcome outcome = session.run(1);

  const RoundReport& report = outcome.reports[0];
  ASSERT_EQ(report.steps.size(), 5U * 3U);
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const StepRecord& step = report.steps[i];
    EXPECT_EQ(step.client, f.participants[i / 3]);
    EXPECT_EQ(step.step, static_cast<int>(i % 3));
    EXPECT_TRUE(step.finite);
    const bool whole = step.client != 3;  // client 3 lacks objective 1
    EXPECT_EQ(step.num_missing, whole ? 0 : 1);
    const double mass = whole ? 1.0 : report.server_weights[0] + report.server_weights[2];
    EXPECT_NEAR(step.mu[0], report.server_weights[0] / mass, 1e-12);
    EXPECT_EQ(step.mu[1], whole ? report.server_weights[1] : 0.0);
    EXPECT_EQ(step.weight, step.mu);
    EXPECT_EQ(std::isfinite(step.gram[0]), step.step == 0) << "only the first has all gradients";
    EXPECT_EQ(std::isfinite(step.loss[1]), whole);
    EXPECT_GT(step.direction_norm, 0.0);
  }
  const StepRecord& first = report.steps[0];
  const Vector zero(f.p(), 0.0);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(first.loss[i], loss_of(f, 0, i, zero), 1e-6);
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(first.gram[i * 3 + j],
                  dot(gradient_of(f, 0, i, zero), gradient_of(f, 0, j, zero)), 1e-5);
    }
  }
  double mean_loss = 0.0;
  double pairs = 0.0;
  for (const int id : f.participants) {
    const auto n =
        static_cast<double>(f.partition.clients[static_cast<std::size_t>(id)].num_pairs());
    mean_loss += has(f, id, 1) ? n * loss_of(f, id, 1, zero) : 0.0;
    pairs += has(f, id, 1) ? n : 0.0;
  }
  EXPECT_NEAR(report.mean_loss[1], mean_loss / pairs, 1e-6);
}

}  // namespace
}  // namespace apo::federation
