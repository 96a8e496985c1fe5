#pragma once

/// @file
/// Inside the room: what one round of local training has in common in both phases. Participants
/// train from the cluster's adapter, their deltas are averaged over the team.

#include <functional>
#include <span>
#include <vector>

#include "apo/federation/local_training.hpp"
#include "apo/federation/round_scheme.hpp"
#include "apo/federation/theory_monitor.hpp"

namespace apo::federation {

struct LocalRound {
  RoundReport report;
  bool delivered = false;      ///< some participant's numbers were finite
  std::vector<double> update;  ///< sum rho_i (w_i - w), [P]; empty unless delivered
};

/// Collective over the team.
///
/// @param pool     pairs of a client that it trains on in this round
/// @param monitor  null, or the monitor that sees the participants' first steps; its terms travel
///                 in the round's own sum
[[nodiscard]] LocalRound run_local_round(const RoundPlan& plan, const RoundResources& resources,
                                         const LocalOptions& options,
                                         std::span<const float> parameters,
                                         const std::function<data::Pool(const data::Client&)>& pool,
                                         TheoryMonitor* monitor);

/// Fills update_norm. @param before  parameters before the server's step
void finish_report(std::span<const float> before, std::span<const float> after,
                   RoundReport& report);

}  // namespace apo::federation
