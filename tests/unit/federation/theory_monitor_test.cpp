#include "apo/federation/theory_monitor.hpp"

#include <cmath>

#include "theory_population.hpp"
#include <gtest/gtest.h>

namespace apo::federation {
namespace {

using testing::all_clients;
using testing::alone;
using testing::expect_cluster;
using testing::expect_same_bits;
using testing::explicit_cluster;
using testing::mixed_modes;
using testing::Population;
using testing::QuadraticObjectives;
using testing::reals;
using testing::setting;
using testing::Vec;
using testing::wholes;

/// A round of all clients through the monitor.
RoundReport monitored(const Population& people, comm::ClusterCommunicator& team,
                      bool reproducible) {
  QuadraticObjectives objectives = people.objectives();
  const auto solver = direction::make_solver(mixed_modes());
  const auto n = static_cast<int>(people.partition.clients.size());
  const auto m = static_cast<std::size_t>(objectives.num_objectives());
  const std::size_t p = people.w.size();
  TheoryMonitor monitor(setting(), static_cast<int>(m), static_cast<std::int64_t>(p));
  const auto [begin, end] = block_of(n, team.rank(), team.size());
  for (int i = begin; i < end; ++i) {
    const data::Client& client = people.partition.clients[static_cast<std::size_t>(i)];
    TheoryClient seen;
    seen.client = i;
    seen.num_pairs = static_cast<double>(client.num_pairs());
    seen.preference = client.preference;
    seen.gradients.resize(m * p);
    const objective::Evaluation evaluation =
        objectives.gradients(people.w, {client.id, client.train}, {}, seen.gradients);
    seen.loss = evaluation.loss;
    seen.gram = gram_matrix(seen.gradients, static_cast<int>(m));
    StepRecord record;
    seen.direction = solve_direction(*solver, evaluation, seen.gram, client.preference, {}, record);
    seen.update_norm = 0.5 + i;
    EXPECT_EQ(monitor.add(std::move(seen)), static_cast<std::size_t>(i - begin));
  }
  std::vector<double> total = {monitor.local_pairs()};
  team.all_reduce(std::span<double>(total), comm::Reduction::kSum);
  monitor.set_total_pairs(total[0]);
  // As in a round: numbers of the round's own come first.
  std::vector<double> sum(3 + monitor.num_terms());
  std::vector<std::size_t> cuts = monitor.cuts();
  for (std::size_t& cut : cuts) {
    cut += 3;
  }
  sum_over_team(
      team, reproducible, sum, static_cast<std::size_t>(end - begin), static_cast<std::size_t>(n),
      [&](std::size_t term, std::size_t first, std::span<double> slice) {
        if (first + slice.size() > 3) {
          const std::size_t skip = first < 3 ? 3 - first : 0;
          monitor.add_client_terms(term, first + skip - 3, slice.subspan(skip));
        }
      },
      cuts);
  monitor.set_update_norm(0.25);
  RoundReport report;
  monitor.finish(team, std::span<const double>(sum).subspan(3), report);
  return report;
}

TEST(TheoryMonitor, SameBitsForAnyNumberOfRanksAndAsTheSerialVectors) {
  const Population people(7, 3, 6, 0.3);
  comm::ClusterCommunicator one = alone();

  const RoundReport team_report = monitored(people, test::world().all(), true);
  const RoundReport own_report = monitored(people, one, true);

  expect_same_bits(team_report, own_report);
  EXPECT_TRUE(testing::has_mixed_weights(team_report));
  const auto solver = direction::make_solver(mixed_modes());
  expect_cluster(team_report, explicit_cluster(people, *solver));
  EXPECT_EQ(wholes(team_report.theory_round, "audit")[0], 0);
  EXPECT_EQ(wholes(team_report.theory_round, "cluster")[0], 2);
  EXPECT_EQ(wholes(team_report.theory_round, "start_round")[0], 7);
  EXPECT_EQ(wholes(team_report.theory_round, "num_clients")[0], 7);
  EXPECT_EQ(wholes(team_report.theory_round, "t6")[0], -1);
  EXPECT_EQ(team_report.theory_pairs.num_rows(), 21);
  // Client drift by its definition: sum rho ||theta - w||^2 - ||mean - w||^2.
  double drift = -0.25 * 0.25;
  for (std::size_t i = 0; i < 7; ++i) {
    drift +=
        reals(team_report.theory_clients, "weight")[i] * std::pow(0.5 + static_cast<double>(i), 2);
  }
  EXPECT_NEAR(reals(team_report.theory_round, "client_drift")[0], drift, 1e-12);
  one.close();
}

TEST(TheoryMonitor, FastSumsAgreeToSinglePrecision) {
  const Population people(7, 3, 6, 0.3);
  const RoundReport exact = monitored(people, test::world().all(), true);
  const RoundReport fast = monitored(people, test::world().all(), false);
  EXPECT_NEAR(reals(fast.theory_round, "dispersion")[0], reals(exact.theory_round, "dispersion")[0],
              1e-5);
}

TEST(TheoryMonitor, ClientsWithoutAnObjectiveAreLeftOut) {
  comm::ClusterCommunicator one = alone();
  TheoryMonitor monitor(setting(), 2, 3);
  for (int i = 0; i < 2; ++i) {
    TheoryClient c;
    c.client = i;
    c.num_pairs = 4.0;
    c.loss = {0.5, i == 0 ? std::nan("") : 0.25};
    c.preference = {0.5, 0.5};
    c.gradients = {1.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F};
    c.gram = gram_matrix(c.gradients, 2);
    c.direction = direction::make_solver({})->solve({Vec{0.5, 0.25}, c.gram, c.preference});
    EXPECT_EQ(monitor.add(std::move(c)), static_cast<std::size_t>(i));
  }
  EXPECT_EQ(monitor.local_pairs(), 4.0);
  monitor.set_total_pairs(4.0);
  std::vector<double> sum(monitor.num_terms(), 0.0);
  monitor.add_client_terms(0, 0, sum);
  monitor.add_client_terms(1, 0, sum);
  EXPECT_THROW(monitor.add_client_terms(2, 0, sum), Error);
  RoundReport report;
  monitor.finish(one, sum, report);
  EXPECT_EQ(wholes(report.theory_round, "num_left_out")[0], 1);
  EXPECT_EQ(wholes(report.theory_round, "num_clients")[0], 1);
  EXPECT_EQ(wholes(report.theory_clients, "client")[0], 1);
  EXPECT_EQ(report.theory_pairs.num_rows(), 0);
  EXPECT_NEAR(reals(report.theory_clients, "deviation")[0], 0.0, 1e-14);
  one.close();
}

TEST(TheoryTables, RowsOfSeveralRoundsAppend) {
  const Population people(4, 2, 5, 0.2);
  RoundReport report = monitored(people, test::world().all(), true);
  report.theory_round.append(monitored(people, test::world().all(), true).theory_round);
  report.theory_round.check();
  report.theory_clients.check();
  report.theory_pairs.check();
  EXPECT_EQ(report.theory_round.num_rows(), 2);
  for (const Table& table : {report.theory_round, report.theory_clients, report.theory_pairs}) {
    for (const Column& column : table.columns()) {
      EXPECT_FALSE(column.long_name.empty()) << column.name;
    }
  }
}

}  // namespace
}  // namespace apo::federation
