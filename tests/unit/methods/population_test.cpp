#include "apo/methods/population.hpp"

#include <cmath>
#include <limits>

#include "support/mpi_world.hpp"
#include "unit/federation/quadratic_objectives.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::methods {
namespace {

using federation::testing::make_clients;
using federation::testing::QuadraticObjectives;

/// Six training clients and one test client; client i's losses at w = 0 are |c_ij|^2 / 2 + 0.1.
data::Partition partition() {
  data::Partition result = make_clients(
      {{0.5, 0.5}, {0.9, 0.1}, {0.1, 0.9}, {0.8, 0.2}, {0.2, 0.8}, {0.7, 0.3}, {0.85, 0.15}},
      {4, 4, 4, 4, 4, 4, 4});
  data::Client& test = result.clients[6];
  test.split = data::ClientSplit::kTest;
  test.adapt = test.train;
  for (auto& pairs : test.train) {
    pairs.clear();
  }
  return result;
}

QuadraticObjectives objectives() {
  std::vector<std::vector<std::vector<float>>> centers;
  for (int i = 0; i < 7; ++i) {
    centers.push_back({{1.0F + 0.1F * static_cast<float>(i)}, {2.0F}});
  }
  return {centers, 1.0, 0.1};
}

TEST(ReferenceLosses, EveryClientOnEveryRank) {
  QuadraticObjectives set = objectives();
  const auto losses = reference_losses(test::world(), partition(), set);

  ASSERT_EQ(losses.size(), 7U);
  for (std::size_t i = 0; i < 7; ++i) {
    const double c = static_cast<double>(1.0F + 0.1F * static_cast<float>(i));
    EXPECT_NEAR(losses[i][0], 0.5 * c * c + 0.1, 1e-6);
    EXPECT_NEAR(losses[i][1], 2.1, 1e-6);
  }
}

TEST(MakePopulation, ClustersTrainingClientsAndAssignsTheTestClient) {
  const data::Partition clients = partition();
  const std::vector<std::vector<double>> losses(7, {1.0, 1.0});
  clustering::ClusteringOptions options;
  options.budget = 2;

  const Population population = make_population(clients, losses, options);

  ASSERT_EQ(population.clustering.clusters.size(), 2U);
  ASSERT_EQ(population.clients.size(), 7U);
  std::size_t members = 0;
  for (const auto& cluster : population.clustering.clusters) {
    members += cluster.members.size();
  }
  EXPECT_EQ(members, 6U);
  // With equal losses the order is that of the preferences; the test client leans to objective 0.
  EXPECT_EQ(population.clients[6].cluster, population.clients[1].cluster);
  EXPECT_NE(population.clients[6].cluster, population.clients[2].cluster);
  EXPECT_GT(population.clients[6].margin, 0.0);
  for (const ClientSummary& row : population.clients) {
    double balance = 0.0;  // identity l'A = 0
    for (std::size_t j = 0; j < 2; ++j) {
      balance += row.reference_loss[j] * row.adjustment[j];
    }
    EXPECT_NEAR(balance, 0.0, 1e-14);
  }
}

TEST(MakePopulation, AbsentObjectiveTakesThePopulationsMean) {
  const data::Partition clients = partition();
  std::vector<std::vector<double>> losses(7, {1.0, 3.0});
  losses[2][0] = std::numeric_limits<double>::quiet_NaN();
  losses[0][0] = 2.0;

  const Population population = make_population(clients, losses, {});

  EXPECT_EQ(population.clients[2].filled, 1);
  EXPECT_NEAR(population.clients[2].reference_loss[0], (5.0 * 1.0 + 2.0) / 6.0, 1e-15);
  EXPECT_EQ(population.clients[1].filled, 0);
}

TEST(MakePopulation, ObjectiveThatNobodyHasIsAnError) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<double>> losses(7, {1.0, nan});

  EXPECT_THROW((void)make_population(partition(), losses, {}), Error);
}

}  // namespace
}  // namespace apo::methods
