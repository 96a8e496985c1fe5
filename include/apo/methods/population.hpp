#pragma once

/// @file
/// What is known of every client before training: losses of the reference policy, bottleneck order,
/// adjustment, cluster (spec algorithms.md, section 2).

#include <cstdint>
#include <span>
#include <vector>

#include "apo/clustering/clustering.hpp"
#include "apo/comm/world.hpp"
#include "apo/data/partition.hpp"
#include "apo/federation/trainer.hpp"
#include "apo/objective/objective_set.hpp"

namespace apo::methods {

/// One client, train or test, under the clustering of the training clients.
struct ClientSummary {
  ClientId client;
  int cluster = 0;
  std::vector<double> reference_loss;  ///< l at w_ref, [m]; see `filled`
  int filled = 0;           ///< objectives the client lacks: their loss is the population's mean
  double uniformity = 0.0;  ///< beta
  std::vector<int> order;   ///< bottleneck order
  std::vector<double> adjustment;  ///< A, [m]
  double distance = 0.0;           ///< to the centroid
  double margin = 0.0;             ///< test clients: second smallest distance minus smallest
  int preference_cluster = 0;      ///< cluster of the nearest preference centroid (HC's choice)
};

struct Population {
  clustering::Clustering clustering;               ///< of the training clients, in id order
  std::vector<ClientSummary> clients;              ///< all clients, by id
  std::vector<std::vector<double>> measured_loss;  ///< [N][m] at w_ref, NaN where absent
};

/// Losses at w_ref for every client: training clients on all their pairs, test clients on what they
/// may adapt on. Each rank computes a block of clients; all ranks get all.
/// @param reference  w_ref, [P]; empty: the reference policy itself
/// @return [N][m], NaN where a client lacks an objective
[[nodiscard]] std::vector<std::vector<double>> reference_losses(
    comm::World& world, const data::Partition& partition, objective::ObjectiveSet& objectives,
    std::span<const float> reference = {});

/// Clusters the training clients and assigns the test clients. Numbers only; equal on all ranks.
[[nodiscard]] Population make_population(const data::Partition& partition,
                                         const std::vector<std::vector<double>>& losses,
                                         const clustering::ClusteringOptions& options);

/// Test clients in use under a population: at most `per_cluster` of each cluster, by id.
[[nodiscard]] std::vector<ClientId> chosen_test_clients(const data::Partition& partition,
                                                        const Population& population,
                                                        int per_cluster);

}  // namespace apo::methods
