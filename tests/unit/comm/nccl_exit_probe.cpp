// Ends a job of two ranks through the ways out of the NCCL back end that leave no rank to report
// to; nccl_exit_codes.sh looks at what mpiexec returns. With the test double of NCCL.

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "nccl_double/nccl_double.hpp"

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/nccl_limits.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

using namespace apo::comm;  // NOLINT: one file, one subject

namespace {

void act(const std::string& mode, World& world) {
  set_nccl_limits({.timeout = 0.5, .grace = 0.5});
  const bool me = world.rank() == 1;
  auto& switches = nccl_double::switches();
  switches.hang_init = me && mode == "init-hangs";
  switches.hang_destroy = me && mode == "destroy-hangs";
  switches.hang_abort = mode == "abort-hangs" || (me && mode == "destructor-hangs");
  switches.async_error_at = world.rank() == 0 && mode == "abort-hangs" ? 1 : nccl_double::kNever;

  auto team = ClusterCommunicator::split(world, 0, Backend::kNccl);
  if (me && mode == "silent") {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  if (mode == "destructor-hangs") {
    return;
  }
  std::vector<double> values{1.0};
  team.all_reduce(std::span<double>(values), Reduction::kSum);
  team.close();
}

}  // namespace

int main(int argc, char** argv) {
  World world(&argc, &argv);
  try {
    act(argv[1], world);
  } catch (const apo::Error& error) {
    World::abort(apo::exit_code(error.fault()), error.what());
  }
  return 0;
}
