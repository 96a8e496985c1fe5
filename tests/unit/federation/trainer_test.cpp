#include "apo/federation/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "quadratic_objectives.hpp"
#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/federation/batch_sampler.hpp"
#include "apo/federation/local_training.hpp"

namespace apo::federation {
namespace {

using testing::make_clients;
using testing::QuadraticObjectives;

class Recorder final : public RoundObserver {
 public:
  void on_round(const RoundReport& report) override { reports.push_back(report); }
  void on_progress(int done, int) override { progress.push_back(done); }
  void on_checkpoint(const TrainingState& state) override { checkpoints.push_back(state); }

  std::vector<RoundReport> reports;
  std::vector<int> progress;
  std::vector<TrainingState> checkpoints;
};

/// Seven clients, two objectives, five parameters, everything different.
QuadraticObjectives seven_clients() {
  CounterRng rng({11, Purpose::kTest});
  std::vector<std::vector<std::vector<float>>> centers(7);
  for (auto& client : centers) {
    for (int j = 0; j < 2; ++j) {
      client.emplace_back();
      for (int k = 0; k < 5; ++k) {
        client.back().push_back(static_cast<float>(rng.normal()));
      }
    }
  }
  return {centers, 1.0, 0.2};
}

data::Partition seven_partition() {
  return make_clients(
      {{0.5, 0.5}, {0.3, 0.7}, {0.6, 0.4}, {0.2, 0.8}, {0.9, 0.1}, {0.4, 0.6}, {0.7, 0.3}},
      {3, 5, 4, 10, 6, 7, 2});
}

TrainingOptions options() {
  TrainingOptions o;
  o.phase1.rounds = 6;
  o.phase1.local_steps = 2;
  o.phase1.batch_size = 3;
  o.phase1.gradient_accumulation = 1;
  o.phase1.learning_rate = 0.05;
  o.phase1.learning_rate_final = 0.01;
  o.phase1.clients_per_round = 3;
  o.phase2.rounds = 4;
  o.phase2.shots = 4;
  o.phase2.inner_steps = 2;
  o.phase2.inner_learning_rate = 0.01;
  o.phase2.inner_batch_size = 4;
  o.phase2.clients_per_round = 2;
  o.phase2.server_learning_rate = {0.01};
  o.phase2.server_weight_decay = {0.1};
  o.seed = 42;
  o.checkpoint_every = 2;
  return o;
}

std::vector<TrainingGroup> two_groups() {
  return {{{ClientId(0), ClientId(2), ClientId(4), ClientId(6)}},
          {{ClientId(1), ClientId(3), ClientId(5)}}};
}

/// Phase I of one cluster as a plain loop over its clients, written from algorithms.md 1.8.
std::vector<float> serial_phase1(QuadraticObjectives& objectives, const data::Partition& partition,
                                 const TrainingOptions& o, const TrainingGroup& group) {
  const auto solver = direction::make_solver(o.direction);
  std::vector<float> w = objectives.initial_parameters(o.seed);
  for (int r = 0; r < o.phase1.rounds; ++r) {
    const std::uint64_t round = (std::uint64_t{1} << 56) | static_cast<std::uint64_t>(r);
    CounterRng sampling({o.seed, Purpose::kClientSampling, group_key(group), round});
    const int n = static_cast<int>(group.members.size());
    std::vector<int> ids;
    for (const int k :
         sampling.sample_without_replacement(n, std::min(n, o.phase1.clients_per_round))) {
      ids.push_back(group.members[static_cast<std::size_t>(k)].value);
    }
    std::sort(ids.begin(), ids.end());
    double mass = 0.0;
    for (const int id : ids) {
      mass += static_cast<double>(partition.clients[static_cast<std::size_t>(id)].num_pairs());
    }
    std::vector<double> sum(w.size(), 0.0);
    for (const int id : ids) {
      const data::Client& client = partition.clients[static_cast<std::size_t>(id)];
      LocalOptions local;
      local.steps = o.phase1.local_steps;
      local.batch_pairs = o.phase1.batch_size * o.phase1.gradient_accumulation;
      local.learning_rate = o.phase1.learning_rate_final +
                            0.5 * (o.phase1.learning_rate - o.phase1.learning_rate_final) *
                                (1.0 + std::cos(3.14159265358979323846 * r / o.phase1.rounds));
      local.clip = o.phase1.gradient_clip;
      const LocalResult result = train_client(
          objectives, *solver, client, client.train, {}, w, local,
          {o.seed, Purpose::kBatch, group_key(group), round, static_cast<std::uint64_t>(id)},
          round << 20, {});
      for (std::size_t k = 0; k < w.size(); ++k) {
        sum[k] += (static_cast<double>(client.num_pairs()) / mass) *
                  static_cast<double>(result.parameters[k] - w[k]);
      }
    }
    for (std::size_t k = 0; k < w.size(); ++k) {
      w[k] = static_cast<float>(static_cast<double>(w[k]) + sum[k]);
    }
  }
  return w;
}

// The same bits as the serial loop, for every number of ranks this test is run with.
TEST(Trainer, PhaseOneEqualsTheSerialLoopBitForBit) {
  QuadraticObjectives objectives = seven_clients();
  const data::Partition partition = seven_partition();
  TrainingOptions o = options();
  o.phase2.rounds = 0;
  Recorder recorder;

  Trainer trainer(test::world(), partition, objectives, o, two_groups());
  trainer.run(recorder);

  const auto groups = two_groups();
  for (std::size_t c = 0; c < groups.size(); ++c) {
    EXPECT_EQ(trainer.final_parameters(0)[c], serial_phase1(objectives, partition, o, groups[c]))
        << "cluster " << c;
  }
}

TEST(Trainer, ReportsEveryRoundOfEveryClusterOnRankZero) {
  QuadraticObjectives objectives = seven_clients();
  const data::Partition partition = seven_partition();
  Recorder recorder;

  Trainer trainer(test::world(), partition, objectives, options(), two_groups());
  trainer.run(recorder);

  if (test::world().rank() != 0) {
    EXPECT_TRUE(recorder.reports.empty());
    return;
  }
  ASSERT_EQ(recorder.reports.size(), 2U * (6U + 4U));
  EXPECT_EQ(recorder.progress.back(), 10);
  for (std::size_t k = 0; k < recorder.reports.size(); ++k) {
    const RoundReport& report = recorder.reports[k];
    EXPECT_EQ(report.cluster, static_cast<int>(k % 2));
    const bool first = k < 12;
    EXPECT_EQ(report.phase, first ? Phase::kOne : Phase::kTwo);
    EXPECT_EQ(report.participants.size(), first ? 3U : 2U);
    EXPECT_EQ(report.steps.size(), report.participants.size() * 2U);
    EXPECT_TRUE(std::is_sorted(report.participants.begin(), report.participants.end()));
    EXPECT_GT(report.update_norm, 0.0);
    EXPECT_TRUE(std::isfinite(report.mean_loss[0]));
  }
}

TEST(Trainer, ResumedRunEqualsTheUninterruptedOne) {
  QuadraticObjectives objectives = seven_clients();
  const data::Partition partition = seven_partition();
  Recorder straight;
  Trainer whole(test::world(), partition, objectives, options(), two_groups());
  whole.run(straight);
  ASSERT_GE(straight.checkpoints.size(), 4U);

  for (const TrainingState& checkpoint : straight.checkpoints) {
    Recorder ignored;
    Trainer resumed(test::world(), partition, objectives, options(), two_groups());
    resumed.restore(checkpoint);
    resumed.run(ignored);

    EXPECT_EQ(resumed.final_parameters(0), whole.final_parameters(0));
  }
}

TEST(Trainer, StartRoundsRunPhaseTwoFromEachSnapshot) {
  QuadraticObjectives objectives = seven_clients();
  const data::Partition partition = seven_partition();
  TrainingOptions o = options();
  o.phase2.start_rounds = {3, 6};
  Recorder both;
  Trainer trainer(test::world(), partition, objectives, o, two_groups());
  trainer.run(both);
  o.phase2.start_rounds = {3};
  Recorder single;
  Trainer early(test::world(), partition, objectives, o, two_groups());
  early.run(single);

  EXPECT_EQ(trainer.start_rounds(), (std::vector<int>{3, 6}));
  EXPECT_EQ(trainer.final_parameters(0), early.final_parameters(0));
  EXPECT_NE(trainer.final_parameters(0), trainer.final_parameters(1));
}

TEST(Trainer, ClientWithNonFiniteLossIsLeftOutOfTheMean) {
  QuadraticObjectives objectives = seven_clients();
  objectives.poisoned_client = 2;
  const data::Partition partition = seven_partition();
  TrainingOptions o = options();
  o.phase1.clients_per_round = 4;
  o.phase2.rounds = 0;
  Recorder recorder;
  Trainer trainer(test::world(), partition, objectives, o,
                  {{{ClientId(0), ClientId(2), ClientId(4)}}});
  trainer.run(recorder);

  for (const float x : trainer.final_parameters(0)[0]) {
    EXPECT_TRUE(std::isfinite(x));
  }
  if (test::world().rank() == 0) {
    EXPECT_EQ(recorder.reports[0].num_failed, 1);
  }
}

TEST(Trainer, EmptyRoundKeepsTheAdapter) {
  QuadraticObjectives objectives = seven_clients();
  objectives.poisoned_client = 3;
  const data::Partition partition = seven_partition();
  TrainingOptions o = options();
  o.phase1.rounds = 2;  // a third one would end the run (FiniteGuard)
  o.phase2.rounds = 0;
  o.phase2.start_rounds.clear();
  Recorder recorder;
  Trainer trainer(test::world(), partition, objectives, o, {{{ClientId(3)}}});

  trainer.run(recorder);

  EXPECT_EQ(trainer.final_parameters(0)[0], objectives.initial_parameters(o.seed));
}

// Algorithms.md, T-K: the FedAvg fixed point of one-objective quadratics is the weighted centre.
TEST(Trainer, FedAvgFixedPoint) {
  std::vector<std::vector<std::vector<float>>> centers = {{{1.0F}}, {{-2.0F}}, {{4.0F}}};
  QuadraticObjectives objectives(centers, 1.0, 0.1);
  const data::Partition partition = make_clients({{1.0}, {1.0}, {1.0}}, {1, 2, 5});
  TrainingOptions o = options();
  o.phase1.rounds = 60;
  o.phase1.optimizer = "sgd";
  o.phase1.learning_rate = 0.3;
  o.phase1.learning_rate_final = 0.3;
  o.phase2.rounds = 0;
  Recorder recorder;
  Trainer trainer(test::world(), partition, objectives, o,
                  {{{ClientId(0), ClientId(1), ClientId(2)}}});

  trainer.run(recorder);

  EXPECT_NEAR(trainer.final_parameters(0)[0][0], (1.0 * 1 + 2 * -2.0 + 5 * 4.0) / 8.0, 1e-5);
}

TEST(Trainer, FastReductionAgreesToRounding) {
  QuadraticObjectives objectives = seven_clients();
  const data::Partition partition = seven_partition();
  TrainingOptions o = options();
  Recorder ignored;
  Trainer ordered(test::world(), partition, objectives, o, two_groups());
  ordered.run(ignored);
  o.reproducible = false;
  Trainer fast(test::world(), partition, objectives, o, two_groups());
  fast.run(ignored);

  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t k = 0; k < 5; ++k) {
      EXPECT_NEAR(fast.final_parameters(0)[c][k], ordered.final_parameters(0)[c][k], 2e-3);
    }
  }
}

TEST(Trainer, RefusesListsOfTheWrongLength) {
  QuadraticObjectives objectives = seven_clients();
  const data::Partition partition = seven_partition();
  TrainingOptions o = options();
  o.phase2.server_learning_rate = {0.1, 0.2, 0.3};

  EXPECT_THROW(Trainer(test::world(), partition, objectives, o, two_groups()), Error);
}

}  // namespace
}  // namespace apo::federation
