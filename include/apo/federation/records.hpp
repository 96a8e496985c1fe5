#pragma once

/// @file
/// What a training run measures, as plain data on its way to the observer.

#include <cstdint>
#include <string>
#include <vector>

#include "apo/core/ids.hpp"

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
  std::vector<double> gram;        ///< [m, m]
  double gamma = 0.0;              ///< A'C mu
  double chebyshev = 0.0;          ///< psi
  double direction_norm = 0.0;     ///< before clipping
  int lp_status = 0;               ///< direction::LpStatus
  bool nonunique = false;
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
  std::int64_t bytes_reduced = 0;  ///< payload of the round's sum, per rank
  std::vector<StepRecord> steps;   ///< by (client, step)
};

/// Byte string of records, to be gathered; only read back by the same program.
[[nodiscard]] std::string pack(const std::vector<StepRecord>& records);
[[nodiscard]] std::vector<StepRecord> unpack(const std::string& bytes);
[[nodiscard]] std::string pack(const RoundReport& report);  ///< without steps
[[nodiscard]] RoundReport unpack_report(const std::string& bytes);

}  // namespace apo::federation
