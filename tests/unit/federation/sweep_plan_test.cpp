#include "apo/federation/sweep_plan.hpp"

#include <algorithm>
#include <set>

#include "quadratic_objectives.hpp"
#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/core/rng.hpp"
#include "apo/federation/theory_monitor.hpp"

namespace apo::federation {
namespace {

using testing::make_clients;
using testing::QuadraticObjectives;

TrainingGroup group(std::initializer_list<int> ids) {
  TrainingGroup result;
  for (const int id : ids) {
    result.members.emplace_back(id);
  }
  return result;
}

/// Cuts 1..budget of a tree in which every cut parts the first cluster that can be parted.
std::vector<std::vector<TrainingGroup>> nested_cuts(int num_clients, int budget) {
  std::vector<TrainingGroup> now(1);
  for (int i = 0; i < num_clients; ++i) {
    now[0].members.emplace_back(i);
  }
  std::vector<std::vector<TrainingGroup>> cuts = {now};
  while (static_cast<int>(cuts.size()) < budget) {
    const auto widest = std::max_element(now.begin(), now.end(),
                                         [](const TrainingGroup& a, const TrainingGroup& b) {
                                           return a.members.size() < b.members.size();
                                         });
    const std::size_t half = widest->members.size() / 2;
    TrainingGroup right;
    right.members.assign(widest->members.begin() + static_cast<std::ptrdiff_t>(half),
                         widest->members.end());
    widest->members.resize(half);
    now.push_back(right);
    cuts.push_back(now);
  }
  return cuts;
}

TEST(SweepPlan, BudgetsOneToSixteenHave31Clusters) {
  const auto cuts = nested_cuts(40, 16);
  const SweepPlan plan = plan_sweep(cuts);
  EXPECT_EQ(plan.num_clusters(), 31);
  ASSERT_EQ(plan.cluster_of.size(), 16U);
  std::size_t total = 0;
  for (std::size_t b = 0; b < cuts.size(); ++b) {
    ASSERT_EQ(plan.cluster_of[b].size(), cuts[b].size());
    for (std::size_t c = 0; c < cuts[b].size(); ++c) {
      const auto at = static_cast<std::size_t>(plan.cluster_of[b][c]);
      EXPECT_EQ(plan.clusters[at].members, cuts[b][c].members);
    }
    total += cuts[b].size();
  }
  EXPECT_EQ(total, 136U);
  std::set<std::vector<ClientId>> distinct;
  for (const TrainingGroup& cluster : plan.clusters) {
    EXPECT_TRUE(distinct.insert(cluster.members).second);
  }
}

TEST(SweepPlan, BudgetsThatLeaveSomeOutAndRepeat) {
  const auto cuts = nested_cuts(8, 4);
  const std::vector<std::vector<TrainingGroup>> some = {cuts[3], cuts[1], cuts[3]};
  const SweepPlan plan = plan_sweep(some);
  EXPECT_EQ(plan.cluster_of[0], (std::vector<int>{0, 1, 2, 3}));  // {0,1} {4,5} {2,3} {6,7}
  EXPECT_EQ(plan.cluster_of[1], (std::vector<int>{4, 5}));        // {0..3} {4..7}
  EXPECT_EQ(plan.cluster_of[2], plan.cluster_of[0]);
  EXPECT_EQ(plan.num_clusters(), 6);
}

TEST(SweepPlan, ReadsBudgets) {
  EXPECT_EQ(parse_budgets("3"), (std::vector<int>{3}));
  EXPECT_EQ(parse_budgets("2-5"), (std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(parse_budgets("8,1,2,4-6,5"), (std::vector<int>{1, 2, 4, 5, 6, 8}));
}

TEST(SweepPlan, RefusesWhatAreNoBudgets) {
  for (const char* text : {"", "0", "-3", "1-", "5-2", "1,,2", "1, 2", "x", "1-2-3", "2.5",
                           "99999999999", "1000001"}) {
    try {
      (void)parse_budgets(text);
      ADD_FAILURE() << "'" << text << "' was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kConfig);
      EXPECT_NE(std::string(error.what()).find("--budgets " + std::string(text)),
                std::string::npos);
    }
  }
}

TEST(SweepPlan, PartsHaveNoClientTwice) {
  const std::vector<TrainingGroup> groups = {group({0, 1, 2, 3}), group({0, 1}), group({2, 3}),
                                             group({2}), group({4})};
  const std::vector<int> wanted = {0, 1, 2, 3, 4};
  const auto parts = disjoint_parts(groups, wanted);
  EXPECT_EQ(parts, (std::vector<std::vector<int>>{{0, 4}, {1, 2}, {3}}));
  EXPECT_EQ(disjoint_parts(groups, std::vector<int>{3, 1}),
            (std::vector<std::vector<int>>{{3, 1}}));
}

TEST(SweepPlan, NewNumberReachesStepsAndTables) {
  RoundReport report;
  report.cluster = 7;
  report.steps.resize(2);
  report.steps[0].cluster = report.steps[1].cluster = 7;
  Table& table = report.theory_clients;
  table.integer("cluster", "", "");
  table.integer("client", "", "");
  for (const std::int64_t client : {5, 6}) {
    table.push("cluster", std::int64_t{7});
    table.push("client", client);
  }
  renumber(report, 3);
  EXPECT_EQ(report.cluster, 3);
  EXPECT_EQ(report.steps[1].cluster, 3);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(table.find("cluster")->values),
            (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(table.find("client")->values),
            (std::vector<std::int64_t>{5, 6}));
}

TEST(SweepPlan, RoundsByPhaseStartAndRound) {
  RoundReport first;
  first.round = 9;
  RoundReport second;
  second.phase = Phase::kTwo;
  second.start_round = 4;
  RoundReport third = second;
  third.start_round = 6;
  RoundReport fourth = third;
  fourth.round = 1;
  EXPECT_TRUE(runs_before(first, second));
  EXPECT_TRUE(runs_before(second, third));
  EXPECT_TRUE(runs_before(third, fourth));
  EXPECT_FALSE(runs_before(fourth, third));
  third.cluster = 5;
  EXPECT_FALSE(runs_before(third, third));
}

// Training in one Trainer, stopped, taken apart and joined otherwise.

class Recorder final : public RoundObserver {
 public:
  explicit Recorder(int stop_after = 1000) : stop_after_(stop_after) {}
  RoundRequest request() override { return {++rounds_ == stop_after_, false}; }
  void on_round(const RoundReport&) override {}
  void on_progress(int, int) override {}
  void on_checkpoint(const TrainingState&) override {}

 private:
  int stop_after_;
  int rounds_ = 0;
};

QuadraticObjectives objectives() {
  CounterRng rng({5, Purpose::kTest});
  std::vector<std::vector<std::vector<float>>> centers(6);
  for (auto& client : centers) {
    for (int j = 0; j < 2; ++j) {
      client.emplace_back();
      for (int k = 0; k < 3; ++k) {
        client.back().push_back(static_cast<float>(rng.normal()));
      }
    }
  }
  return {centers, 1.0, 0.2};
}

data::Partition partition() {
  return make_clients({{0.5, 0.5}, {0.3, 0.7}, {0.6, 0.4}, {0.2, 0.8}, {0.9, 0.1}, {0.4, 0.6}},
                      {3, 5, 4, 6, 2, 7});
}

TrainingOptions options() {
  TrainingOptions o;
  o.phase1.rounds = 4;
  o.phase1.local_steps = 2;
  o.phase1.batch_size = 3;
  o.phase1.gradient_accumulation = 1;
  o.phase1.learning_rate = 0.05;
  o.phase1.clients_per_round = 2;
  o.phase2.rounds = 3;
  o.phase2.shots = 2;
  o.phase2.inner_steps = 2;
  o.phase2.inner_learning_rate = 0.01;
  o.phase2.inner_batch_size = 2;
  o.phase2.clients_per_round = 2;
  o.phase2.server_learning_rate = {0.01};
  o.phase2.start_rounds = {2, 4};
  o.seed = 9;
  o.checkpoint_every = 100;
  return o;
}

const std::vector<TrainingGroup> kGroups = {group({0, 1, 2, 3, 4, 5}), group({0, 1, 2}),
                                            group({3, 4, 5}), group({1, 2})};

TEST(SweepState, OverlappingClustersTrainAsIfAlone) {
  QuadraticObjectives task = objectives();
  const data::Partition clients = partition();
  Trainer together(test::world(), clients, task, options(), kGroups);
  Recorder observer;
  EXPECT_EQ(together.run(observer), Outcome::kComplete);
  for (std::size_t g = 0; g < kGroups.size(); ++g) {
    Trainer alone(test::world(), clients, task, options(), {kGroups[g]});
    EXPECT_EQ(alone.run(observer), Outcome::kComplete);
    for (int variant = 0; variant < 2; ++variant) {
      EXPECT_EQ(alone.final_parameters(variant)[0], together.final_parameters(variant)[g]);
    }
  }
}

TEST(SweepState, TakenApartAndJoinedGoesOnTheSame) {
  QuadraticObjectives task = objectives();
  const data::Partition clients = partition();
  Recorder to_the_end;
  Trainer whole(test::world(), clients, task, options(), kGroups);
  EXPECT_EQ(whole.run(to_the_end), Outcome::kComplete);
  for (const int stop_after : {1, 3, 5, 8}) {  // Phase I, before and after a start; both variants
    Trainer stopped(test::world(), clients, task, options(), kGroups);
    Recorder some(stop_after);
    ASSERT_EQ(stopped.run(some), Outcome::kStopped);
    const std::vector<int> order = {3, 0};  // two of the four, the other way round
    std::vector<TrainingState> states;
    std::vector<TrainingGroup> groups;
    for (const int g : order) {
      groups.push_back(kGroups[static_cast<std::size_t>(g)]);
      states.push_back(state_of_cluster(stopped.state(), g, groups.back()));
    }
    EXPECT_EQ(progress_of(states[0]), progress_of(stopped.state()));
    Trainer resumed(test::world(), clients, task, options(), groups);
    resumed.restore(joined(states));
    EXPECT_EQ(resumed.run(to_the_end), Outcome::kComplete);
    for (int variant = 0; variant < 2; ++variant) {
      for (std::size_t k = 0; k < order.size(); ++k) {
        EXPECT_EQ(resumed.final_parameters(variant)[k],
                  whole.final_parameters(variant)[static_cast<std::size_t>(order[k])])
            << "stopped after " << stop_after;
      }
    }
  }
}

TEST(SweepState, OnlyEqualProgressIsJoined) {
  TrainingState one;
  one.parameters = {{1.0F}};
  one.memory.resize(1);
  TrainingState other = one;
  other.phase1_rounds = 1;
  EXPECT_THROW((void)joined(std::vector<TrainingState>{one, other}), Error);
}

TEST(SweepState, ModesStayWithTheClustersClients) {
  TrainingState state;
  state.parameters = {{1.0F}, {2.0F}};
  state.memory.resize(2);
  state.was_uniform = {1, 0, 1, 1};
  const TrainingState one = state_of_cluster(state, 1, group({1, 2}));
  EXPECT_EQ(one.was_uniform, (std::vector<std::int8_t>{0, 0, 1, 0}));
  const TrainingState other = state_of_cluster(state, 0, group({0, 3}));
  EXPECT_EQ(joined(std::vector<TrainingState>{other, one}).was_uniform, state.was_uniform);
}

}  // namespace
}  // namespace apo::federation
