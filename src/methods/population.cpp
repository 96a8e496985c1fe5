#include "apo/methods/population.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string_view>

#include "apo/comm/activity.hpp"
#include "apo/core/balance.hpp"
#include "apo/core/bytes.hpp"
#include "apo/core/error.hpp"
#include "apo/federation/placement.hpp"

namespace apo::methods {
namespace {

double distance_between(std::span<const double> a, std::span<const double> b) {
  double sum = 0.0;
  for (std::size_t j = 0; j < a.size(); ++j) {
    sum += (a[j] - b[j]) * (a[j] - b[j]);
  }
  return std::sqrt(sum);
}

/// Replaces NaN by the mean over the clients that have the objective.
std::vector<int> fill_absent(std::vector<std::vector<double>>& losses) {
  std::vector<int> filled(losses.size(), 0);
  const std::size_t m = losses.empty() ? 0 : losses[0].size();
  for (std::size_t j = 0; j < m; ++j) {
    double sum = 0.0;
    int count = 0;
    for (const auto& row : losses) {
      if (!std::isnan(row[j])) {
        sum += row[j];
        ++count;
      }
    }
    expects(count > 0, "make_population: an objective that no client has");
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (std::isnan(losses[i][j])) {
        losses[i][j] = sum / count;
        ++filled[i];
      }
    }
  }
  return filled;
}

}  // namespace

std::vector<std::vector<double>> reference_losses(comm::World& world,
                                                  const data::Partition& partition,
                                                  objective::ObjectiveSet& objectives,
                                                  std::span<const float> reference) {
  const int num_clients = static_cast<int>(partition.clients.size());
  const auto m = static_cast<std::size_t>(objectives.num_objectives());
  const auto [begin, end] = federation::block_of(num_clients, world.rank(), world.size());
  std::vector<double> mine;
  for (int i = begin; i < end; ++i) {
    const data::Client& client = partition.clients[static_cast<std::size_t>(i)];
    const data::Pool& pool =
        client.split == data::ClientSplit::kTrain ? client.train : client.adapt;
    comm::note_progress();
    const objective::Evaluation evaluation = objectives.evaluate(reference, {client.id, pool});
    mine.insert(mine.end(), evaluation.loss.begin(), evaluation.loss.end());
  }
  std::vector<std::vector<double>> losses;
  for (const std::string& part : world.all().all_gather(to_bytes(std::span<const double>(mine)))) {
    for (std::size_t at = 0; at < part.size(); at += m * sizeof(double)) {
      losses.push_back(from_bytes<double>(std::string_view(part).substr(at, m * sizeof(double))));
    }
  }
  return losses;
}

Population make_population(const data::Partition& partition,
                           const std::vector<std::vector<double>>& losses,
                           const clustering::ClusteringOptions& options) {
  expects(losses.size() == partition.clients.size(), "make_population: one row per client");
  std::vector<std::vector<double>> loss = losses;
  const std::vector<int> filled = fill_absent(loss);
  std::vector<clustering::Point> points;
  for (const ClientId id : partition.train_clients()) {
    const data::Client& client = partition.clients[id.index()];
    points.push_back(
        {id, loss[id.index()], client.preference, static_cast<double>(client.num_pairs())});
  }
  Population population;
  population.measured_loss = losses;
  population.clustering = clustering::cluster_clients(points, options);
  std::vector<int> cluster(partition.clients.size(), -1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    cluster[points[i].client.index()] = population.clustering.assignment[i].value;
  }
  for (const data::Client& client : partition.clients) {
    ClientSummary row;
    row.client = client.id;
    row.reference_loss = loss[client.id.index()];
    row.filled = filled[client.id.index()];
    row.order = clustering::bottleneck_order(row.reference_loss, client.preference);
    const Balance balanced = balance(row.reference_loss, client.preference);
    row.uniformity = balanced.uniformity;
    row.adjustment = balanced.adjustment;
    const clustering::Assignment assigned =
        clustering::assign_client(population.clustering, row.reference_loss, client.preference);
    row.preference_cluster = assigned.preference_only.value;
    if (client.split == data::ClientSplit::kTrain) {
      row.cluster = cluster[client.id.index()];
      const clustering::Cluster& own =
          population.clustering.clusters[static_cast<std::size_t>(row.cluster)];
      row.distance = population.clustering.method == "hc"
                         ? distance_between(client.preference, own.preference_centroid)
                         : distance_between(row.adjustment, own.centroid);
    } else {
      row.cluster = assigned.cluster.value;
      row.distance = assigned.distance;
      row.margin = assigned.margin;
    }
    population.clients.push_back(std::move(row));
  }
  return population;
}

std::vector<ClientId> chosen_test_clients(const data::Partition& partition,
                                          const Population& population, int per_cluster) {
  std::map<int, int> taken;
  std::vector<ClientId> clients;
  for (const ClientId id : partition.test_clients()) {
    if (taken[population.clients[id.index()].cluster]++ < per_cluster) {
      clients.push_back(id);
    }
  }
  return clients;
}

}  // namespace apo::methods
