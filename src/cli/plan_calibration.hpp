#pragma once

/// @file
/// Some real work of a task on this machine, timed and weighed: a few seconds that the plan's time
/// and memory rest on.

#include <vector>

#include "plan_subject.hpp"
#include "run_task.hpp"

#include "apo/comm/world.hpp"
#include "apo/config/run_config.hpp"
#include "apo/methods/plan.hpp"

namespace apo::cli {

struct Calibration {
  methods::UnitSeconds unit;
  /// Passes and generation as measured; libraries and process as they are now. Weights included.
  methods::MemoryBasis memory;
  std::vector<double> mean_loss;  ///< [m] reference losses of the clients that were looked at
  int rounds = 0;                 ///< real rounds that were run
  double seconds = 0.0;           ///< that all this took
};

/// Loads the model and runs: the reference losses and one round of Phase I of one client per rank
/// (of as many as in a round where that is cheap), and one evaluation of a test client. The ranks
/// of this job work at the same time, as they would in the run. Collective over the world.
///
/// @param inputs   of the plan; groups are not looked at
/// @param before   this process before the task was made
/// @param start    seconds that making the task took
[[nodiscard]] Calibration calibrate(comm::World& world, const config::RunConfig& config,
                                    RunTask& task, const methods::PlanInputs& inputs,
                                    const PairLengths& lengths, double start);

}  // namespace apo::cli
