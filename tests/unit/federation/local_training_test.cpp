#include "apo/federation/local_training.hpp"

#include <cmath>

#include "quadratic_objectives.hpp"
#include <gtest/gtest.h>

namespace apo::federation {
namespace {

using testing::make_clients;
using testing::QuadraticObjectives;

const StreamKey kKey{3, Purpose::kBatch, 0, 0, 0};

TEST(GramMatrix, MatchesTheDefinition) {
  // 11 numbers per row: both the blocked part and the remainder of the inner product are used.
  std::vector<float> g;
  for (int k = 0; k < 33; ++k) {
    g.push_back(static_cast<float>(std::sin(0.7 * k)));
  }

  const std::vector<double> gram = gram_matrix(g, 3);

  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      long double sum = 0.0L;
      for (std::size_t k = 0; k < 11; ++k) {
        sum += static_cast<long double>(g[i * 11 + k]) * static_cast<long double>(g[j * 11 + k]);
      }
      EXPECT_NEAR(gram[i * 3 + j], static_cast<double>(sum), 1e-13);
    }
  }
}

TEST(Combine, WeightsRows) {
  const std::vector<float> g = {1.0F, 2.0F, 10.0F, 20.0F};
  std::vector<float> d(2);

  combine(g, std::vector<double>{0.25, 0.75}, d);

  EXPECT_FLOAT_EQ(d[0], 7.75F);
  EXPECT_FLOAT_EQ(d[1], 15.5F);
}

// Algorithms.md, T-K: m = 1, SGD, tau steps: g = -(1 - (1 - eta s)^tau)(w - c).
TEST(TrainClient, OneObjectiveFollowsTheClosedForm) {
  QuadraticObjectives objectives({{{2.0F, -1.0F}}}, 0.5, 0.1);
  const data::Partition partition = make_clients({{1.0}}, {10});
  const auto solver = direction::make_solver({});
  const std::vector<float> start = {0.5F, 0.5F};

  const LocalResult result = train_client(
      objectives, *solver, partition.clients[0], partition.clients[0].train, {}, start,
      {.steps = 3, .batch_pairs = 4, .learning_rate = 0.4, .optimizer = "sgd"}, kKey, 0, {});

  const double keep = std::pow(1.0 - 0.4 * 0.5, 3);
  EXPECT_NEAR(result.parameters[0], 2.0 + keep * (0.5 - 2.0), 1e-6);
  EXPECT_NEAR(result.parameters[1], -1.0 + keep * (0.5 + 1.0), 1e-6);
  EXPECT_EQ(result.steps.size(), 3U);
  EXPECT_TRUE(result.finite);
}

TEST(TrainClient, AbsentObjectiveIsDroppedAndPreferenceRenormalised) {
  QuadraticObjectives objectives({{{1.0F, 0.0F}, {0.0F, 1.0F}, {1.0F, 1.0F}}}, 1.0, 0.1);
  data::Partition partition = make_clients({{0.5, 0.25, 0.25}}, {8});
  partition.clients[0].train[1].clear();
  const auto solver = direction::make_solver({.solver = "fixed"});
  const std::vector<float> start = {0.0F, 0.0F};

  const LocalResult result = train_client(
      objectives, *solver, partition.clients[0], partition.clients[0].train, {}, start,
      {.steps = 1, .batch_pairs = 4, .learning_rate = 1.0, .optimizer = "sgd"}, kKey, 0, {});

  const StepRecord& step = result.steps[0];
  EXPECT_TRUE(std::isnan(step.loss[1]));
  EXPECT_NEAR(step.mu[0], 2.0 / 3.0, 1e-12);
  EXPECT_EQ(step.mu[1], 0.0);
  EXPECT_NEAR(step.mu[2], 1.0 / 3.0, 1e-12);
  EXPECT_NEAR(result.parameters[0], 1.0, 1e-6);
  EXPECT_NEAR(result.parameters[1], 1.0 / 3.0, 1e-6);
}

TEST(TrainClient, NonFiniteLossLeavesTheStart) {
  QuadraticObjectives objectives({{{1.0F}, {2.0F}}}, 1.0, 0.1);
  objectives.poisoned_client = 0;
  const data::Partition partition = make_clients({{0.5, 0.5}}, {4});
  const auto solver = direction::make_solver({});
  const std::vector<float> start = {0.25F};

  const LocalResult result =
      train_client(objectives, *solver, partition.clients[0], partition.clients[0].train, {}, start,
                   {.steps = 2}, kKey, 0, {});

  EXPECT_FALSE(result.finite);
  EXPECT_EQ(result.parameters, start);
  ASSERT_EQ(result.steps.size(), 1U);
  EXPECT_FALSE(result.steps[0].finite);
}

// A single client with equal weights on two unit quadratics ends where the weighted losses are
// equal, here at the middle of the two centres.
TEST(TrainClient, LpReachesTheRayPoint) {
  QuadraticObjectives objectives({{{0.0F, 0.0F}, {2.0F, 0.0F}}}, 1.0, 0.1);
  const data::Partition partition = make_clients({{0.5, 0.5}}, {4});
  const auto solver = direction::make_solver({});
  const std::vector<float> start = {-1.0F, 1.0F};

  const LocalResult result = train_client(
      objectives, *solver, partition.clients[0], partition.clients[0].train, {}, start,
      {.steps = 400, .batch_pairs = 2, .learning_rate = 0.05, .optimizer = "sgd"}, kKey, 0, {});

  EXPECT_NEAR(result.parameters[0], 1.0, 0.03);
  EXPECT_NEAR(result.parameters[1], 0.0, 0.03);
}

TEST(Records, PackAndUnpack) {
  StepRecord a;
  a.phase = Phase::kTwo;
  a.start_round = 130;
  a.client = 5;
  a.loss = {0.5, std::nan("")};
  a.mu = {1.0, 0.0};
  a.gram = {1.0, 2.0, 3.0, 4.0};
  a.nonunique = true;
  RoundReport report;
  report.cluster = 2;
  report.participants = {1, 5};
  report.mean_loss = {0.25, 0.5};
  report.bytes_reduced = std::int64_t{1} << 40;

  const std::vector<StepRecord> steps = unpack(pack({a, a}));
  const RoundReport back = unpack_report(pack(report));

  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].phase, Phase::kTwo);
  EXPECT_EQ(steps[1].start_round, 130);
  EXPECT_EQ(steps[1].client, 5);
  EXPECT_TRUE(std::isnan(steps[1].loss[1]));
  EXPECT_EQ(steps[1].gram, a.gram);
  EXPECT_TRUE(steps[1].nonunique);
  EXPECT_EQ(back.participants, report.participants);
  EXPECT_EQ(back.mean_loss, report.mean_loss);
  EXPECT_EQ(back.bytes_reduced, report.bytes_reduced);
}

}  // namespace
}  // namespace apo::federation
