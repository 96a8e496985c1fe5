#include "apo/comm/watchdog.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host_memory.hpp"
#include "mpi_cluster.hpp"
#include "process_end.hpp"
#include "watchdog_thread.hpp"
#include <fmt/format.h>
#include <unistd.h>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"

namespace apo::comm {
namespace {

/// All ranks of this host.
ClusterCommunicator host_communicator(const World& world) {
  MPI_Comm node = MPI_COMM_NULL;
  mpi_check(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank(), MPI_INFO_NULL, &node),
      "MPI_Comm_split_type");
  return ClusterCommunicator(std::make_unique<MpiCluster>(UniqueComm(node)), "ranks of this host");
}

WatchdogThread::Settings settings_for(const World& world, double timeout, int slot) {
  WatchdogThread::Settings settings;
  settings.limits.timeout = timeout;
  settings.limits.grace = std::clamp(timeout / 10.0, 1.0, 5.0);
  settings.tick = std::clamp(timeout / 20.0, 0.02, 5.0);
  settings.limits.silence = std::max(2.0, 5.0 * settings.tick);
  settings.rank = world.rank();
  settings.num_ranks = world.size();
  settings.host = world.host();
  settings.slot = slot;
  settings.alarm = [rank = world.rank(), host = world.host()](const std::string& message) {
    constexpr unsigned kSecondsForTheLine = 10;
    const int code = exit_code(Fault::kBackend);
    if (message.empty()) {  // the launcher ends this rank once the one that speaks is gone
      ::sleep(kSecondsForTheLine);
    } else {
      exit_later(kSecondsForTheLine, code);  // in case nobody reads stderr
      write_to_stderr(fmt::format("[rank {} {}] watchdog: {}; the job is ended with code {}\n",
                                  rank, host, message, code));
    }
    ::_exit(code);
  };
  return settings;
}

}  // namespace

struct Watchdog::Impl {
  Impl(const World& world, double timeout, ClusterCommunicator host)
      : memory(host, WatchdogBoard::size_in_bytes(host.size())),
        thread(settings_for(world, timeout, memory.is_shared() ? host.rank() : 0),
               WatchdogBoard(memory.data(), memory.is_shared() ? host.size() : 1)) {
    host.close();
  }

  HostMemory memory;
  WatchdogThread thread;
};

Watchdog::Watchdog(World& world, double timeout) {
  if (timeout > 0.0) {
    impl_ = std::make_unique<Impl>(world, timeout, host_communicator(world));
  }
}

Watchdog::~Watchdog() = default;

}  // namespace apo::comm
