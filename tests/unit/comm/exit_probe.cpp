// Ends a job of two ranks in one of several ways; exit_codes.sh looks at what mpiexec returns.

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

using apo::comm::World;

namespace {

int act(const std::string& mode, World& world) {
  const bool me = world.rank() == 1;
  if (mode == "well") {
    world.all().barrier();
    return 0;
  }
  if (mode == "returns" && me) {
    return 5;
  }
  if (mode == "returns") {
    return 0;
  }
  if (me && mode.starts_with("abort=")) {
    World::abort(std::atoi(mode.c_str() + 6), "probe says goodbye");
  }
  if (me && mode == "escapes") {
    throw std::runtime_error("probe lets an exception go");
  }
  if (me && mode == "exit0") {
    std::_Exit(0);
  }
  world.all().barrier();  // the other rank would wait here for ever
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  World world(&argc, &argv);
  return act(argv[1], world);
}
