#include "apo/methods/personaliser.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "personaliser_descent.hpp"
#include "unit/federation/quadratic_objectives.hpp"
#include "unit/methods/recording_objectives.hpp"
#include <gtest/gtest.h>

#include "apo/federation/local_training.hpp"
#include "apo/methods/fspo.hpp"

namespace apo::methods {
namespace {

using federation::StepRecord;
using federation::testing::make_clients;
using federation::testing::QuadraticObjectives;
using testing::RecordingObjectives;

/// One test client with `pairs` pairs of each of two objectives, positions 0, 1, 2, ...
data::Partition one_test_client(int pairs) {
  data::Partition result = make_clients({{0.7, 0.3}}, {pairs});
  data::Client& client = result.clients[0];
  client.split = data::ClientSplit::kTest;
  std::swap(client.train, client.adapt);
  return result;
}

QuadraticObjectives two_quadratics() { return {{{{1.0F, 0.0F}, {0.0F, 2.0F}}}, 1.0, 0.1}; }

std::multiset<int> pairs_of(const objective::Batch& batch) {
  std::multiset<int> result;
  for (const std::vector<int>& list : batch.pairs) {
    result.insert(list.begin(), list.end());
  }
  return result;
}

TEST(SupportPairs, AreStratifiedOwnAndTheSameEveryTime) {
  const data::Partition partition = one_test_client(15);
  const data::Pool support = support_pairs(partition.clients[0], 10, 7);

  ASSERT_EQ(support.size(), 2U);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(support[j].size(), 5U);
    for (const int pair : support[j]) {
      EXPECT_EQ(std::ranges::count(partition.clients[0].adapt[j], pair), 1);
    }
  }
  EXPECT_EQ(support, support_pairs(partition.clients[0], 10, 7));
  EXPECT_NE(support, support_pairs(partition.clients[0], 10, 8));
  EXPECT_EQ(support_pairs(partition.clients[0], 30, 7), partition.clients[0].adapt);
}

TEST(FewShot, ReuseStaysInOneSupportSet) {
  const data::Partition partition = one_test_client(15);
  QuadraticObjectives inner = two_quadratics();
  RecordingObjectives objectives(inner);
  const auto solver = direction::make_solver({});
  federation::AdaptOptions adapt;
  adapt.shots = 10;
  adapt.steps = 6;
  adapt.learning_rate = 0.05;
  federation::Phase2Options episode;
  episode.inner_batch_size = 4;
  std::vector<StepRecord> steps;
  const std::vector<float> start = {0.0F, 0.0F};

  const std::vector<float> adapted =
      make_few_shot_personaliser(objectives, *solver, partition, adapt, episode, 7)
          ->personalise(partition.clients[0], 130, 2, start, steps);

  const data::Pool support = support_pairs(partition.clients[0], 10, 7);
  ASSERT_EQ(objectives.calls.size(), 6U);
  for (const auto& call : objectives.calls) {
    for (std::size_t j = 0; j < 2; ++j) {
      EXPECT_EQ(call.batch.pairs[j].size(), 2U);
      for (const int pair : call.batch.pairs[j]) {
        EXPECT_EQ(std::ranges::count(support[j], pair), 1);
      }
    }
  }
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_EQ(steps[5].phase, federation::Phase::kAdaptation);
  EXPECT_EQ(steps[5].start_round, 130);
  EXPECT_EQ(steps[5].cluster, 2);
  EXPECT_EQ(steps[5].step, 5);
  // AdamW's first steps are by the learning rate: towards both minima, (1, 0) and (0, 2)
  EXPECT_GT(adapted[0], 0.0F);
  EXPECT_GT(adapted[1], 0.0F);
}

TEST(FewShot, FreshTakesNewPairsOfTheWholePoolAtEveryStep) {
  const data::Partition partition = one_test_client(15);
  QuadraticObjectives inner = two_quadratics();
  RecordingObjectives objectives(inner);
  const auto solver = direction::make_solver({});
  federation::AdaptOptions adapt;
  adapt.shots = 10;
  adapt.steps = 3;
  adapt.samples = "fresh";
  std::vector<StepRecord> steps;

  (void)make_few_shot_personaliser(objectives, *solver, partition, adapt, {}, 7)
      ->personalise(partition.clients[0], 0, 0, std::vector<float>{0.0F, 0.0F}, steps);

  ASSERT_EQ(objectives.calls.size(), 3U);
  std::set<int> seen;
  for (const auto& call : objectives.calls) {
    const std::multiset<int> pairs = pairs_of(call.batch);
    EXPECT_EQ(pairs.size(), 10U);
    seen.insert(pairs.begin(), pairs.end());
  }
  EXPECT_EQ(seen.size(), 30U);  // all of the pool, each once
}

TEST(FewShot, SgdIsTheSolversDirectionTimesTheRate) {
  const data::Partition partition = one_test_client(4);
  QuadraticObjectives objectives = two_quadratics();
  const auto solver = direction::make_solver({.solver = "fixed"});
  federation::AdaptOptions adapt;
  adapt.steps = 1;
  adapt.learning_rate = 0.25;
  federation::Phase2Options episode;
  episode.inner_optimizer = "sgd";
  std::vector<StepRecord> steps;

  const std::vector<float> adapted =
      make_few_shot_personaliser(objectives, *solver, partition, adapt, episode, 7)
          ->personalise(partition.clients[0], 0, 0, std::vector<float>{0.0F, 0.0F}, steps);

  EXPECT_NEAR(adapted[0], 0.25 * 0.7 * 1.0, 1e-6);
  EXPECT_NEAR(adapted[1], 0.25 * 0.3 * 2.0, 1e-6);
}

TEST(FewShot, ReturnsTheInitialiserWhenANumberIsNotFinite) {
  const data::Partition partition = one_test_client(4);
  QuadraticObjectives objectives = two_quadratics();
  objectives.poisoned_client = 0;
  const auto solver = direction::make_solver({});
  const std::vector<float> start = {0.5F, -0.5F};
  std::vector<StepRecord> steps;

  EXPECT_EQ(make_few_shot_personaliser(objectives, *solver, partition, {}, {}, 7)
                ->personalise(partition.clients[0], 0, 0, start, steps),
            start);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_FALSE(steps[0].finite);

  EXPECT_EQ(make_fspo_personaliser(objectives, partition, {}, {}, 7)
                ->personalise(partition.clients[0], 0, 0, start, steps),
            start);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_FALSE(steps[1].finite);
}

// Computed with torch.optim.RMSprop(lr = 0.01).
TEST(RmsProp, MatchesPyTorchVector) {
  std::vector<float> p = {1.0F, -2.0F};
  std::vector<float> v;
  const std::vector<std::vector<float>> gradients = {{0.5F, -1.0F}, {0.1F, 0.2F}, {-0.3F, 0.0F}};
  const std::vector<std::vector<double>> expected = {
      {0.90000004, -1.89999998}, {0.88029343, -1.91970658}, {0.93137437, -1.91970658}};

  for (std::size_t t = 0; t < gradients.size(); ++t) {
    rmsprop_step(p, gradients[t], v, 0.01);

    EXPECT_NEAR(p[0], expected[t][0], 3e-7) << "step " << t;
    EXPECT_NEAR(p[1], expected[t][1], 3e-7) << "step " << t;
  }
}

TEST(Fspo, AnEpochHoldsEveryPairOnceInStratifiedBatches) {
  const data::Partition partition = one_test_client(15);
  QuadraticObjectives inner = two_quadratics();
  RecordingObjectives objectives(inner);
  federation::AdaptOptions adapt;
  adapt.shots = 20;
  adapt.learning_rate = 1e-3;
  std::vector<StepRecord> steps;

  (void)make_fspo_personaliser(objectives, partition, {.epochs = 2}, adapt, 7)
      ->personalise(partition.clients[0], 0, 0, std::vector<float>{0.0F, 0.0F}, steps);

  ASSERT_EQ(objectives.calls.size(), 10U);
  std::multiset<int> seen;
  for (const auto& call : objectives.calls) {
    EXPECT_EQ(call.batch.pairs[0].size(), 2U);
    EXPECT_EQ(call.batch.pairs[1].size(), 2U);
    EXPECT_EQ(call.weights, partition.clients[0].preference);
    seen.merge(pairs_of(call.batch));
  }
  const data::Pool support = support_pairs(partition.clients[0], 20, 7);
  for (const std::vector<int>& list : support) {
    for (const int pair : list) {
      EXPECT_EQ(seen.count(pair), 2U);
    }
  }
  EXPECT_EQ(seen.size(), 40U);
}

TEST(Fspo, WarmUpAndClipping) {
  const data::Partition partition = one_test_client(10);
  QuadraticObjectives inner = two_quadratics();
  RecordingObjectives objectives(inner);
  federation::AdaptOptions adapt;
  adapt.learning_rate = 1e-3;
  const FspoOptions options{.optimizer = "rmsprop", .warmup_steps = 4, .gradient_clip = 0.01};
  std::vector<StepRecord> steps;

  (void)make_fspo_personaliser(objectives, partition, options, adapt, 7)
      ->personalise(partition.clients[0], 0, 0, std::vector<float>{0.0F, 0.0F}, steps);

  ASSERT_EQ(objectives.calls.size(), 5U);
  // RMSprop's first step is by rate / sqrt(0.01), here a fifth of it; v gathers clipped squares:
  // with gradients g that hardly change the second is by 2/5 rate / sqrt(1 - 0.99^2)
  const std::vector<float>& first = objectives.calls[1].parameters;
  EXPECT_NEAR(first[0], 1e-3 / 5.0 / 0.1, 1e-6);
  EXPECT_NEAR(objectives.calls[2].parameters[0] - first[0],
              1e-3 * 2.0 / 5.0 / std::sqrt(1.0 - 0.99 * 0.99), 2e-5);
  EXPECT_NEAR(steps[0].direction_norm, std::sqrt(0.7 * 0.7 + 0.6 * 0.6), 1e-6);  // before clipping
}

}  // namespace
}  // namespace apo::methods
