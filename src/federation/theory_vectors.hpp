#pragma once

/// @file
/// Inside the room: the part of the theory quantities that needs P-dimensional vectors, and the way
/// of a client's numbers to the other ranks.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/federation/theory_conditions.hpp"
#include "apo/federation/theory_monitor.hpp"

namespace apo::federation::theory {

/// slice[k] += factor * d[begin + k], d = sum_j weight_j g_j in float64.
/// @param gradients  [m, P] row-major
void add_direction(std::span<const float> gradients, std::span<const double> weight, double factor,
                   std::size_t begin, std::span<double> slice);

/// The shared direction and its blocks (43).
struct Aggregates {
  std::vector<double> mean;       ///< dbar, [P]
  std::vector<double> uniform;    ///< dbar0, [P]; empty without uniform clients
  std::vector<double> balancing;  ///< dbar+, [P]; empty without balancing clients
  double norm = kUndefined;
  double norm_uniform = kUndefined;
  double norm_balancing = kUndefined;
};

/// @param balancing       sum over C+ of rho_i d_i, [P]; @param uniform  over C0
/// @param balancing_mass  rho+; @param uniform_mass  rho0
[[nodiscard]] Aggregates make_aggregates(std::span<const double> balancing,
                                         std::span<const double> uniform, double balancing_mass,
                                         double uniform_mass);

/// Products and deviations of one client; a deviation that cancels is taken from the vectors.
void measure(std::span<const float> gradients, const Aggregates& aggregates, ClientTerms& terms);

/// What evaluate_round() needs of a client, without its vectors.
[[nodiscard]] ClientTerms terms_of(const TheoryClient& client, double total_pairs);

/// Clients of all ranks, in rank order, on every rank. Collective.
[[nodiscard]] std::vector<ClientTerms> gather(comm::ClusterCommunicator& team,
                                              const std::vector<ClientTerms>& mine);

/// Numbers of the setting that the conditions read.
[[nodiscard]] SharedTerms shared_terms(const TheorySetting& setting, const Aggregates& aggregates);

/// Evaluates all conditions and fills the report's theory tables. The same on every rank.
void report_conditions(const TheorySetting& setting, std::span<const ClientTerms> clients,
                       const SharedTerms& shared, int left_out, int num_objectives,
                       RoundReport& report);

}  // namespace apo::federation::theory
