#pragma once

/// @file
/// What a training run measures, as plain data on its way to the observer.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "apo/core/ids.hpp"
#include "apo/core/table.hpp"

namespace apo::federation {

enum class Phase : std::int8_t { kOne = 1, kTwo = 2, kAdaptation = 3 };

/// One optimiser step of one client. Arrays are over all m objectives; entries of absent
/// objectives are NaN (losses, Gram) or 0 (mu, adjustment).
struct StepRecord {
  Phase phase = Phase::kOne;
  int start_round = 0;  ///< Phase II and adaptation: the Phase I round they start from
  int cluster = 0;
  int round = 0;   ///< 0-based
  int client = 0;  ///< ClientId
  int step = 0;
  std::vector<double> loss;        ///< l, [m], nat
  std::vector<double> accuracy;    ///< [m]
  double uniformity = 0.0;         ///< beta, nat
  std::vector<double> adjustment;  ///< A, [m]
  int mode = 0;                    ///< direction::Mode
  std::vector<double> mu;          ///< [m]
  std::vector<double> weight;      ///< [m] d = sum_j weight_j g_j; mu unless normalised or mixed
  std::vector<double> gram;        ///< [m, m]
  double gamma = 0.0;              ///< A'C mu
  double chebyshev = 0.0;          ///< psi
  double direction_norm = 0.0;     ///< before clipping
  int lp_status = 0;               ///< direction::LpStatus
  bool nonunique = false;
  double min_slack = 0.0;  ///< see direction::Direction, as the following
  int num_ascending = 0;
  int num_aligned = 0;  ///< |J|; 0: J is empty
  int num_aligned_ascending = 0;
  int losses_floored = 0;
  int num_missing = 0;  ///< objectives without a pair in the batch
  double kappa_lp = std::numeric_limits<double>::quiet_NaN();
  std::uint64_t basis_id = 0;
  bool finite = true;  ///< false: loss or gradient not finite; the step was not taken
  double seconds = 0.0;
};

/// One aggregation of one cluster.
struct RoundReport {
  Phase phase = Phase::kOne;
  int start_round = 0;
  int cluster = 0;
  int round = 0;
  std::vector<int> participants;  ///< client ids, ascending
  int num_failed = 0;             ///< participants left out because a number was not finite
  std::vector<double> mean_loss;  ///< [m] rho-weighted over the participants' first steps
  double update_norm = 0.0;       ///< ||w_{r+1} - w_r||
  double learning_rate = 0.0;
  double seconds_clients = 0.0;    ///< longest rank of the team
  double seconds_reduction = 0.0;  ///< on the team's first rank
  double imbalance = 1.0;          ///< client seconds of the slowest rank over the team's mean
  std::int64_t bytes_reduced = 0;  ///< payload of the round's sum, per rank
  /// What the method sends per participant and round in a real federation, in float32 numbers
  /// (algorithms.md 3.6); the simulator's own collectives are bytes_reduced.
  std::int64_t floats_up = 0;
  std::int64_t floats_down = 0;
  std::vector<double> server_weights;  ///< [m] common weights of server-centric methods; else empty
  Table theory_round;             ///< one row, or none: theory_round_table() of theory_monitor.hpp
  Table theory_clients;           ///< one row per client, or none
  Table theory_pairs;             ///< what compares two clients (T8, T9, T11, T13), or none
  std::vector<StepRecord> steps;  ///< by (client, step)
};

/// Byte string of records, to be gathered; only read back by the same program.
[[nodiscard]] std::string pack(const std::vector<StepRecord>& records);
[[nodiscard]] std::vector<StepRecord> unpack(const std::string& bytes);
[[nodiscard]] std::string pack(const RoundReport& report);  ///< without steps
[[nodiscard]] RoundReport unpack_report(const std::string& bytes);

/// What a rank tells the others at the end of a round.
struct RoundPacket {
  bool stop = false;                 ///< asks to stop (RoundRequest)
  bool checkpoint = false;           ///< asks for a checkpoint
  std::vector<RoundReport> reports;  ///< of the clusters whose team it leads, with steps
};
[[nodiscard]] std::string pack(const RoundPacket& packet);
[[nodiscard]] RoundPacket unpack_packet(const std::string& bytes);

}  // namespace apo::federation
