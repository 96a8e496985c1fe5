#pragma once

/// @file
/// Where in the training this rank is, for messages of errors and of the watchdog.

#include <string_view>

#include "apo/comm/activity.hpp"
#include "apo/data/partition.hpp"
#include "apo/federation/records.hpp"

namespace apo::federation {

[[nodiscard]] constexpr std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kOne:
      return "phase1";
    case Phase::kTwo:
      return "phase2";
    case Phase::kAdaptation:
      return "adaptation";
  }
  return "";
}

/// "phase1 round 57 cluster 2"; a scope, to be kept while the round of that cluster lasts.
[[nodiscard]] inline comm::Activity round_activity(Phase phase, int round, int cluster) {
  return comm::Activity(phase_name(phase), round, cluster);
}

/// "phase1 round 57 cluster 2 client 17 'alice'"; "adaptation cluster 2 client 17 'alice'".
[[nodiscard]] inline comm::Activity client_activity(Phase phase, int round, int cluster,
                                                    const data::Client& client) {
  return comm::Activity(phase_name(phase), phase == Phase::kAdaptation ? -1 : round, cluster,
                        client.id.value, client.name);
}

}  // namespace apo::federation
