#pragma once

/// @file
/// The state of the round loop from rank 0 to all ranks.

#include "apo/federation/trainer.hpp"

namespace apo::comm {
class ClusterCommunicator;
}

namespace apo::cli {

/// Collective. Rank 0's state replaces that of the others, bit for bit.
void broadcast_state(comm::ClusterCommunicator& all, federation::TrainingState& state);

}  // namespace apo::cli
