#include <algorithm>
#include <cmath>

#include "theory_population.hpp"
#include <gtest/gtest.h>

namespace apo::federation {
namespace {

using testing::all_clients;
using testing::alone;
using testing::difference;
using testing::expect_cluster;
using testing::expect_same_bits;
using testing::explicit_cluster;
using testing::ExplicitClient;
using testing::ExplicitCluster;
using testing::inner;
using testing::length;
using testing::mixed_modes;
using testing::Population;
using testing::QuadraticObjectives;
using testing::reals;
using testing::setting;
using testing::Vec;
using testing::wholes;

/// Counts the gradient evaluations of this rank.
class CountingObjectives final : public objective::ObjectiveSet {
 public:
  explicit CountingObjectives(objective::ObjectiveSet& base) : base_(base) {}
  [[nodiscard]] int num_objectives() const override { return base_.num_objectives(); }
  [[nodiscard]] std::int64_t num_parameters() const override { return base_.num_parameters(); }
  [[nodiscard]] std::vector<float> initial_parameters(std::uint64_t seed) const override {
    return base_.initial_parameters(seed);
  }
  [[nodiscard]] double chebyshev_optimum(ClientId client, std::span<const double>) const override {
    return 0.01 * client.value;
  }
  [[nodiscard]] objective::Evaluation evaluate(std::span<const float> w,
                                               const objective::Batch& batch) override {
    return base_.evaluate(w, batch);
  }
  [[nodiscard]] objective::Evaluation gradients(std::span<const float> w,
                                                const objective::Batch& batch,
                                                const objective::StepKey& key,
                                                std::span<float> gradients) override {
    ++calls;
    dropout = dropout || key.dropout;
    return base_.gradients(w, batch, key, gradients);
  }
  [[nodiscard]] objective::Evaluation weighted_gradient(std::span<const float> w,
                                                        const objective::Batch& batch,
                                                        const objective::StepKey& key,
                                                        std::span<const double> weights,
                                                        std::span<float> gradient) override {
    return base_.weighted_gradient(w, batch, key, weights, gradient);
  }
  int calls = 0;
  bool dropout = false;

 private:
  objective::ObjectiveSet& base_;
};

struct AuditOptions {
  double smoothness = 1.0;
  int memory_mib = 64;
  bool ordered = true;
  int poisoned = -1;
  std::string solver = "apo_lp";
  std::string aggregation = "pairs";
};

RoundReport audited(const Population& people, comm::ClusterCommunicator& team,
                    const AuditOptions& options, CountingObjectives* counter = nullptr) {
  QuadraticObjectives inner_objectives = people.objectives();
  inner_objectives.poisoned_client = options.poisoned;
  CountingObjectives local(inner_objectives);
  CountingObjectives& objectives = counter != nullptr ? *counter : local;
  direction::DirectionOptions direction_options = mixed_modes();
  direction_options.solver = options.solver;
  direction_options.firm_preference = "none";
  const auto solver = direction::make_solver(direction_options);
  RoundResources resources{people.partition, objectives, *solver, team, {}, {}, {}, {}};
  resources.direction = direction_options;
  resources.monitor.memory_mib = options.memory_mib;
  resources.phase1.aggregation = options.aggregation;
  resources.seed = 3;
  resources.reproducible = options.ordered;
  RoundPlan plan;
  plan.cluster = 2;
  plan.round = 5;
  plan.members = all_clients(static_cast<int>(people.partition.clients.size()));
  TheorySetting s = setting();
  s.audit = true;
  s.smoothness = options.smoothness;
  s.firm_beta = options.solver == "firm" ? direction_options.firm_beta : 0.0;
  RoundReport report;
  audit(plan, resources, s, people.w, report);
  return report;
}

TEST(TheoryAudit, SameBitsForAnyNumberOfRanksAndAsTheSerialVectors) {
  const Population people(7, 3, 6, 0.3);
  comm::ClusterCommunicator one = alone();

  const RoundReport team_report = audited(people, test::world().all(), {});
  const RoundReport own_report = audited(people, one, {});

  expect_same_bits(team_report, own_report);
  EXPECT_TRUE(testing::has_mixed_weights(team_report));
  for (const Table* table :
       {&team_report.theory_round, &team_report.theory_clients, &team_report.theory_pairs}) {
    table->check();
  }
  const auto solver = direction::make_solver(mixed_modes());
  const ExplicitCluster cluster = explicit_cluster(people, *solver);
  expect_cluster(team_report, cluster);

  // Distances to the mean gradients, disagreement and stationarity from the vectors.
  std::vector<Vec> mean(3, Vec(6, 0.0));
  Vec mean_weight(3, 0.0);
  for (const ExplicitClient& c : cluster.clients) {
    for (std::size_t j = 0; j < 3; ++j) {
      mean_weight[j] += c.rho * c.direction.weight[j];
      for (std::size_t k = 0; k < 6; ++k) {
        mean[j][k] += c.rho * c.gradients[j][k];
      }
    }
  }
  double dissimilarity = 0.0;
  Vec drift(6, 0.0);
  for (std::size_t i = 0; i < 7; ++i) {
    const ExplicitClient& c = cluster.clients[i];
    double residual = 0.0;
    for (std::size_t j = 0; j < 3; ++j) {
      residual = std::max(residual, length(difference(c.gradients[j], mean[j])));
      for (const ExplicitClient& other : cluster.clients) {
        dissimilarity =
            std::max(dissimilarity, length(difference(c.gradients[j], other.gradients[j])));
      }
    }
    EXPECT_NEAR(reals(team_report.theory_clients, "gradient_residual")[i], residual, 1e-10);
    const Vec own = testing::combine(c.gradients, difference(c.direction.weight, mean_weight));
    for (std::size_t k = 0; k < 6; ++k) {
      drift[k] += c.rho * own[k];
    }
  }
  const Table& round = team_report.theory_round;
  EXPECT_LE(reals(round, "dissimilarity_low")[0], dissimilarity + 1e-12);
  EXPECT_GE(reals(round, "dissimilarity_high")[0], dissimilarity - 1e-12);
  EXPECT_NEAR(reals(round, "disagreement_drift")[0], length(drift), 1e-10);
  double shortest = 1e300;
  for (int a = 0; a <= 200; ++a) {
    for (int b = 0; a + b <= 200; ++b) {
      const Vec x = testing::combine(mean, {a / 200.0, b / 200.0, (200 - a - b) / 200.0});
      shortest = std::min(shortest, inner(x, x));
    }
  }
  EXPECT_LE(reals(round, "stationarity")[0], shortest + 1e-12);
  EXPECT_GE(reals(round, "stationarity")[0], shortest - 0.01);
  one.close();
}

TEST(TheoryAudit, LossesAfterTheStepAndItsBounds) {
  const Population people(7, 3, 6, 0.3);
  const RoundReport report = audited(people, test::world().all(), {});
  const auto solver = direction::make_solver(mixed_modes());
  const ExplicitCluster cluster = explicit_cluster(people, *solver);
  QuadraticObjectives objectives = people.objectives();
  std::vector<float> after = people.w;
  for (std::size_t k = 0; k < after.size(); ++k) {
    after[k] = static_cast<float>(static_cast<double>(after[k]) - 0.05 * cluster.mean[k]);
  }
  const std::vector<double> losses = reals(report.theory_clients, "loss_after");
  for (std::size_t i = 0; i < 7; ++i) {
    const data::Client& client = people.partition.clients[i];
    const Vec expected = objectives.evaluate(after, {client.id, client.train}).loss;
    double psi = 0.0;
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(losses[i * 3 + j], expected[j], 1e-7);
      psi = std::max(psi, client.preference[j] * cluster.clients[i].loss[j]);
    }
    EXPECT_NEAR(reals(report.theory_clients, "gap")[i], psi - 0.01 * static_cast<double>(i), 1e-12);
  }
  EXPECT_EQ(wholes(report.theory_round, "t6")[0], 1);
  EXPECT_EQ(wholes(report.theory_round, "t7")[0], 1);
  EXPECT_EQ(wholes(report.theory_round, "t2_first_order")[2], 0);
  EXPECT_EQ(wholes(report.theory_round, "t2_sound_observed")[2], 0);
  EXPECT_NEAR(reals(report.theory_round, "smoothness_observed")[0], 1.0, 1e-3);
  // A smoothness constant that is too small must show.
  EXPECT_EQ(
      wholes(audited(people, test::world().all(), {.smoothness = 1e-3}).theory_round, "t6")[0], 0);
  // An unknown one is observed.
  const RoundReport unknown = audited(people, test::world().all(), {.smoothness = std::nan("")});
  EXPECT_EQ(wholes(unknown.theory_round, "smoothness_is_observed")[0], 1);
  EXPECT_NEAR(reals(unknown.theory_round, "smoothness")[0], 1.0, 1e-3);
}

TEST(TheoryAudit, GradientsThatDoNotFitAreComputedTwice) {
  // 20000 parameters: a client's gradients take 240 kB, 4 of the 12 fit into 1 MiB of one rank.
  const Population people(12, 3, 20000, 0.3);
  QuadraticObjectives objectives = people.objectives();
  CountingObjectives small(objectives);
  CountingObjectives large(objectives);
  comm::ClusterCommunicator one = alone();

  const RoundReport tight = audited(people, test::world().all(), {.memory_mib = 1}, &small);
  const RoundReport roomy = audited(people, test::world().all(), {.memory_mib = 1024}, &large);
  const RoundReport own = audited(people, one, {.memory_mib = 1});

  expect_same_bits(tight, own);
  EXPECT_TRUE(testing::has_mixed_weights(tight));
  EXPECT_FALSE(small.dropout);
  std::vector<std::int64_t> calls = {small.calls, large.calls};
  test::world().all().all_reduce(std::span<std::int64_t>(calls), comm::Reduction::kSum);
  EXPECT_EQ(calls[1], 12);
  int twice = 0;  // eight blocks of members, dealt to the ranks; four members fit per rank
  for (int rank = 0; rank < test::world().size(); ++rank) {
    const auto [begin, end] = block_of(8, rank, test::world().size());
    twice += std::max(0, block_of(12, end - 1, 8).second - block_of(12, begin, 8).first - 4);
  }
  EXPECT_EQ(calls[0], 12 + twice);
  for (const char* name : {"deviation", "t6_loss_slack", "gradient_residual"}) {
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_NEAR(reals(tight.theory_clients, name)[i], reals(roomy.theory_clients, name)[i],
                  1e-12);
    }
  }
  one.close();
}

// Deviations of 1e-5 of the directions' length: the formula from products would keep no digit.
TEST(TheoryAudit, DeviationsThatCancelAreTakenFromTheVectors) {
  const Population people(5, 3, 8, 1e-5, true);
  const RoundReport report = audited(people, test::world().all(), {});
  const auto solver = direction::make_solver(mixed_modes());
  const ExplicitCluster cluster = explicit_cluster(people, *solver);
  for (std::size_t i = 0; i < 5; ++i) {
    const double expected = length(difference(cluster.mean, cluster.clients[i].d));
    ASSERT_LT(expected, 1e-3 * length(cluster.mean));
    ASSERT_GT(expected, 1e-7 * length(cluster.mean));
    EXPECT_NEAR(reals(report.theory_clients, "deviation")[i], expected, 1e-8 * expected);
    EXPECT_EQ(wholes(report.theory_clients, "recomputed")[i], 1);
  }
  EXPECT_EQ(wholes(report.theory_round, "num_recomputed")[0], 5);
}

TEST(TheoryAudit, MembersThatAreNotFiniteOrLackAnObjectiveAreLeftOut) {
  Population people(7, 3, 6, 0.3);
  people.partition.clients[1].train[2].clear();
  const RoundReport report = audited(people, test::world().all(), {.poisoned = 4});
  EXPECT_EQ(wholes(report.theory_round, "num_left_out")[0], 2);
  EXPECT_EQ(wholes(report.theory_clients, "client"), (std::vector<std::int64_t>{0, 2, 3, 5, 6}));
  double mass = 0.0;
  for (const double rho : reals(report.theory_clients, "weight")) {
    mass += rho;
  }
  EXPECT_NEAR(mass, 1.0, 1e-14);

  for (data::Client& client : people.partition.clients) {
    client.train[0].clear();
  }
  const RoundReport nobody = audited(people, test::world().all(), {});
  EXPECT_EQ(nobody.theory_round.num_rows(), 0);
  EXPECT_NE(nobody.theory_round.find("dispersion"), nullptr);
}

TEST(TheoryAudit, FirmClientsGetLemmaEight) {
  const Population people(7, 3, 6, 0.1);
  const RoundReport report =
      audited(people, test::world().all(), {.solver = "firm", .aggregation = "uniform"});
  for (const double rho : reals(report.theory_clients, "weight")) {
    EXPECT_DOUBLE_EQ(rho, 1.0 / 7.0);
  }
  const std::vector<double> gram = reals(report.theory_pairs, "lemma8_gram");
  ASSERT_EQ(gram.size(), 21U);
  double largest = 0.0;
  for (std::size_t k = 0; k < gram.size(); ++k) {
    EXPECT_LE(gram[k], 1.0 + 1e-9);
    EXPECT_LE(reals(report.theory_pairs, "lemma8_paper")[k], 1.0);
    largest = std::max(largest, gram[k]);
  }
  EXPECT_EQ(reals(report.theory_round, "lemma8_gram")[0], largest);
  EXPECT_EQ(wholes(report.theory_clients, "mode")[0], 3);
}

}  // namespace
}  // namespace apo::federation
