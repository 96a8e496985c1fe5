#include "apo/methods/plan.hpp"

#include <gtest/gtest.h>

namespace apo::methods {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

ClientId id(int value) { return ClientId(value); }

/// Six training clients in clusters {0, 1, 2, 3} and {4, 5}, two test clients; 100 tokens each.
PlanInputs small() {
  PlanInputs inputs;
  inputs.traits = {.per_cluster = true, .meta = true};
  inputs.num_objectives = 3;
  inputs.num_parameters = inputs.scheme_parameters = 1000;
  federation::TrainingOptions& training = inputs.options.training;
  training.phase1.rounds = 10;
  training.phase1.local_steps = 2;
  training.phase1.clients_per_round = 3;
  training.phase1.batch_size = 5;
  training.phase1.gradient_accumulation = 1;
  training.phase2.rounds = 4;
  training.phase2.clients_per_round = 2;
  training.phase2.inner_steps = 3;
  training.phase2.inner_batch_size = 5;
  training.phase2.shots = 5;
  training.monitor.theory = false;
  training.checkpoint_every = 5;
  inputs.options.adapt.steps = 2;
  inputs.options.evaluate.samples_per_prompt = 2;
  for (int i = 0; i < 8; ++i) {
    ClientWork client;
    client.num_pairs = 10;
    client.pool_tokens = 100.0;
    client.pool_work = 220.0;
    client.phase1_step = 110.0;
    client.phase2_step = 44.0;
    if (i >= 6) {
      client.held_out_tokens = 30.0;
      client.adapt_step = 22.0;
      client.num_prompts = 4;
    } else {
      inputs.train_clients.push_back(id(i));
    }
    inputs.clients.push_back(client);
  }
  inputs.groups = {{id(0), id(1), id(2), id(3)}, {id(4), id(5)}};
  inputs.test_clients = {id(6), id(7)};
  return inputs;
}

TEST(BatchWork, TextsThatObjectivesShareGoForwardOnce) {
  // Pairs 0 and 2 label the same text.
  const std::vector<int> text = {0, 1, 0};
  const std::vector<int> tokens = {10, 20, 10};
  const data::Pool batch = {{0, 1}, {2}};
  EXPECT_DOUBLE_EQ(batch_work(batch, tokens, text, Gradients::kNone), 30.0);
  EXPECT_DOUBLE_EQ(batch_work(batch, tokens, text, Gradients::kWeighted),
                   30.0 * (1.0 + kBackwardWork));
  EXPECT_DOUBLE_EQ(batch_work(batch, tokens, text, Gradients::kPerObjective),
                   30.0 + kBackwardWork * 40.0);
}

TEST(BatchWork, WithoutLengthsEveryPairCountsOnce) {
  EXPECT_DOUBLE_EQ(batch_work({{4, 5}, {}, {9}}, {}, {}, Gradients::kNone), 3.0);
}

TEST(PlanWork, CountsOfPhases) {
  const WorkPlan plan = plan_work(small());
  ASSERT_EQ(plan.phases.size(), 3U);
  EXPECT_EQ(plan.phases[0].name, "phase1");
  EXPECT_EQ(plan.phases[0].rounds, 10);
  EXPECT_EQ(plan.phases[0].client_rounds, 10 * (3 + 2));  // the second cluster has two clients
  EXPECT_EQ(plan.phases[0].steps, 10 * 5 * 2);
  EXPECT_EQ(plan.phases[1].steps, 4 * 4 * 3);
  EXPECT_EQ(plan.phases[2].steps, 2 * 2);
  EXPECT_EQ(plan.num_checkpoints, 3);  // rounds 5 and 10, the end of Phase II
}

TEST(PlanWork, OneRankDoesEverythingOnce) {
  const WorkPlan plan = plan_work(small());
  EXPECT_DOUBLE_EQ(plan.stages.at("reference").reference_tokens, 800.0);
  const StageWork& phase1 = plan.stages.at("phase1");
  EXPECT_DOUBLE_EQ(phase1.gradient_work, 10 * 5 * 2 * 110.0);
  EXPECT_DOUBLE_EQ(phase1.reference_tokens, 0.0);  // all known since the reference losses
  EXPECT_DOUBLE_EQ(phase1.cluster_rounds, 20.0);
  const StageWork& evaluation = plan.stages.at("evaluation");
  EXPECT_DOUBLE_EQ(evaluation.gradient_work, 2 * 2 * 22.0);
  EXPECT_DOUBLE_EQ(evaluation.forward_tokens, 2 * 2 * 30.0);  // initialiser and adapted
  EXPECT_DOUBLE_EQ(evaluation.reference_tokens, 2 * 30.0);
  EXPECT_DOUBLE_EQ(evaluation.responses, 2 * 2 * 4 * 2.0);
  EXPECT_DOUBLE_EQ(evaluation.evaluations, 6.0);
}

TEST(PlanWork, TheSlowestRankCounts) {
  PlanInputs inputs = small();
  inputs.num_ranks = 2;
  const WorkPlan plan = plan_work(inputs);
  EXPECT_DOUBLE_EQ(plan.stages.at("reference").reference_tokens, 400.0);
  // Cluster 0 on its own rank: three participants; clients 0 to 3 were in its block.
  EXPECT_DOUBLE_EQ(plan.stages.at("phase1").gradient_work, 10 * 3 * 2 * 110.0);
  EXPECT_EQ(plan.max_participants_per_rank, 3);
  inputs.num_ranks = 4;  // teams of two ranks, or of three and one
  EXPECT_DOUBLE_EQ(plan_work(inputs).stages.at("phase1").gradient_work, 10 * 2 * 2 * 110.0);
}

TEST(PlanWork, TextsOfOtherRanksAreNewToARank) {
  PlanInputs inputs = small();
  inputs.num_ranks = 2;
  inputs.groups = {{id(4), id(5), id(2), id(3)}, {id(0), id(1)}};
  // Rank 0 has computed the reference losses of clients 0 to 3 and meets 4 and 5 in Phase I: each
  // takes part in 7.5 rounds, all of its pairs every time.
  EXPECT_NEAR(plan_work(inputs).stages.at("phase1").reference_tokens, 200.0, 1e-9);
}

TEST(PlanWork, AuditsVisitAllMembersAndAgainWhatWasNotKept) {
  PlanInputs inputs = small();
  federation::MonitorOptions& monitor = inputs.options.training.monitor;
  monitor.theory = true;
  monitor.audit_every = 4;
  monitor.memory_mib = 1;
  inputs.num_parameters = inputs.scheme_parameters = 50000;  // 0.57 MiB of gradients per client
  const WorkPlan plan = plan_work(inputs);
  EXPECT_TRUE(plan.monitored);
  EXPECT_FALSE(plan.keeps_gradients);  // three participants need 1.7 MiB
  EXPECT_EQ(plan.num_audits, 3);       // rounds 0, 4 and 8
  // One of each cluster is kept, the others are computed twice.
  EXPECT_DOUBLE_EQ(plan.stages.at("audits").gradient_work, 3 * 220.0 * ((1 + 2 * 3) + (1 + 2 * 1)));
  EXPECT_DOUBLE_EQ(plan.stages.at("audits").forward_tokens, 3 * 100.0 * 6);
}

TEST(PlanWork, FixedWeightsAreNotMonitored) {
  PlanInputs inputs = small();
  inputs.options.training.monitor.theory = true;
  inputs.one_by_one = false;
  EXPECT_FALSE(plan_work(inputs).monitored);
  EXPECT_EQ(plan_work(inputs).num_audits, 0);
}

TEST(PlanTraffic, PayloadOfTheSums) {
  PlanInputs inputs = small();
  inputs.options.training.monitor.theory = true;
  inputs.options.training.monitor.memory_mib = 64;
  const WorkPlan work = plan_work(inputs);
  const TrafficPlan traffic = plan_traffic(inputs, work);
  EXPECT_EQ(traffic.round_bytes, 8 * (1000 + 2 * 1000 + 3));
  EXPECT_EQ(traffic.audit_bytes, 8 * 5 * 1000);
  EXPECT_EQ(traffic.meta_round_bytes, 8 * 1000);
  inputs.options.training.reproducible = false;
  EXPECT_EQ(plan_traffic(inputs, work).meta_round_bytes, 4 * 1000);
}

TEST(PlanDisk, RowsAndState) {
  Table table;
  table.real("loss", "nat", "", {3});
  table.integer("round", "", "");
  table.text("name", "");
  EXPECT_DOUBLE_EQ(row_bytes(table, 40.0), 8 * 3 + 8 + 40);

  PlanInputs inputs = small();
  inputs.checkpoints_kept = 2;
  RowBytes rows;
  rows.step = 100.0;
  rows.round = 10.0;
  const DiskPlan disk = plan_disk(inputs, plan_work(inputs), rows);
  EXPECT_DOUBLE_EQ(disk.history_bytes_per_round, 2 * 10 + 5 * 2 * 100);
  EXPECT_DOUBLE_EQ(disk.history_bytes, 10 * 1020.0 + 4 * (2 * 10 + 4 * 3 * 100));
  // Phase I, the start round, Phase II and AdamW's moments, of two clusters.
  EXPECT_DOUBLE_EQ(disk.state_bytes, 5 * 2 * 4000.0 + 8 * 8);
  EXPECT_DOUBLE_EQ(disk.checkpoint_bytes, disk.history_bytes + disk.state_bytes);
  EXPECT_DOUBLE_EQ(disk.adapter_bytes, 2 * 4000.0);
  EXPECT_GE(disk.total_bytes, 3 * disk.checkpoint_bytes);
}

TEST(PlanTime, UnitsTimesWork) {
  WorkPlan work;
  work.stages["reference"].reference_tokens = 1000.0;
  work.stages["phase1"].gradient_work = 500.0;
  work.stages["phase1"].cluster_rounds = 4.0;
  work.stages["evaluation"].responses = 10.0;
  UnitSeconds unit;
  unit.start = 7.0;
  unit.reference_token = 0.002;
  unit.gradient_work = 0.01;
  unit.cluster_round = 0.25;
  unit.response = 0.5;
  const std::vector<TimePart> parts = plan_time(work, unit, 0.0);
  ASSERT_EQ(parts.front().name, "start");
  EXPECT_DOUBLE_EQ(total_seconds(parts), 7.0 + 2.0 + 5.0 + 1.0 + 5.0);
}

MemoryBasis basis() {
  MemoryBasis memory;
  memory.libraries = 100.0 * kMib;
  memory.process = 50.0 * kMib;
  memory.weights = 200.0 * kMib;
  memory.activations = 300.0 * kMib;
  return memory;
}

double node_of(const PlanInputs& inputs, const MemoryBasis& memory) {
  const WorkPlan work = plan_work(inputs);
  return plan_memory(inputs, work, plan_disk(inputs, work, {}), memory).node;
}

TEST(PlanMemory, LibrariesAreSharedOnANode) {
  PlanInputs inputs = small();
  inputs.num_ranks = inputs.ranks_per_node = 1;
  const double one = node_of(inputs, basis());
  EXPECT_GT(one, 650.0 * kMib);
  EXPECT_LT(one, 655.0 * kMib);  // adapters of 4 kB do not show
  inputs.num_ranks = inputs.ranks_per_node = 3;
  EXPECT_NEAR(node_of(inputs, basis()), one + 2 * 550.0 * kMib, 4.0 * kMib);
}

TEST(PlanMemory, OneStageAtATime) {
  PlanInputs inputs = small();
  MemoryBasis memory = basis();
  memory.generation = 900.0 * kMib;
  const WorkPlan work = plan_work(inputs);
  const MemoryPlan plan = plan_memory(inputs, work, plan_disk(inputs, work, {}), memory);
  EXPECT_EQ(plan.peak_stage, "evaluation");
  EXPECT_NEAR(plan.peak, (100.0 + 50.0 + 200.0 + 900.0) * kMib, 2.0 * kMib);
}

TEST(PlanMemory, TheMonitorKeepsEveryParticipantsGradients) {
  PlanInputs inputs = small();
  inputs.num_parameters = inputs.scheme_parameters = 1'000'000;
  const auto stage = [&] {
    const WorkPlan work = plan_work(inputs);
    for (const MemoryPart& part :
         plan_memory(inputs, work, plan_disk(inputs, work, {}), basis()).stages) {
      if (part.name == "Phase I") {
        return part.bytes;
      }
    }
    return 0.0;
  };
  const double without = stage();
  inputs.options.training.monitor.theory = true;
  inputs.options.training.monitor.audit_every = 0;
  EXPECT_DOUBLE_EQ(stage() - without, 3 * 3 * 4'000'000.0);
}

TEST(SmallestChange, FewerRanksPerNodeFirst) {
  PlanInputs inputs = small();
  inputs.num_ranks = inputs.ranks_per_node = 8;
  const double limit = node_of(inputs, basis()) * 0.6;
  const Change change = smallest_change(inputs, basis(), {}, limit);
  ASSERT_EQ(change.what.rfind("--ranks-per-node ", 0), 0U) << change.what;
  EXPECT_LE(change.bytes, limit);
  inputs.ranks_per_node = std::stoi(change.what.substr(17)) + 1;  // one more does not fit
  EXPECT_GT(node_of(inputs, basis()), limit);
}

TEST(SmallestChange, ThenLessMemoryForAudits) {
  PlanInputs inputs = small();
  inputs.num_parameters = inputs.scheme_parameters = 4'000'000;
  inputs.options.training.monitor.theory = true;
  inputs.options.training.monitor.memory_mib = 4096;
  const double full = node_of(inputs, basis());
  const Change change = smallest_change(inputs, basis(), {}, full - 20.0 * kMib);
  EXPECT_EQ(change.what.rfind("monitor.memory_mib = ", 0), 0U) << change.what;
  EXPECT_LE(change.bytes, full - 20.0 * kMib);
}

TEST(PlanDevice, CountsTheModelAndTheLargestPass) {
  const DeviceMemory device = plan_device(small(), basis());
  double sum = 0.0;
  for (const MemoryPart& part : device.parts) {
    sum += part.bytes;
  }
  EXPECT_DOUBLE_EQ(device.total, sum);
  EXPECT_NEAR(device.total, (600.0 + 200.0 + 300.0) * kMib, 1.0 * kMib);
}

TEST(SmallestDeviceChange, NarrowerWeightsThenSmallerAdapters) {
  PlanInputs inputs = small();
  inputs.num_parameters = inputs.scheme_parameters = 8'000'000;
  inputs.adapter_rank = 8;
  const double full = plan_device(inputs, basis()).total;
  Change change = smallest_device_change(inputs, basis(), full - 40.0 * kMib);
  EXPECT_EQ(change.what.rfind("lora.rank = ", 0), 0U) << change.what;
  EXPECT_LE(change.bytes, full - 40.0 * kMib);
  inputs.wide_weights = true;
  change = smallest_device_change(inputs, basis(), full - 40.0 * kMib);
  EXPECT_EQ(change.what, "model.dtype = bfloat16");
  EXPECT_NEAR(change.bytes, full - 250.0 * kMib, 1.0);
  EXPECT_TRUE(smallest_device_change(inputs, basis(), 500.0 * kMib).what.empty());
}

TEST(SmallestChange, NothingHelpsAModelThatIsTooLarge) {
  EXPECT_TRUE(smallest_change(small(), basis(), {}, 100.0 * kMib).what.empty());
}

}  // namespace
}  // namespace apo::methods
