#include "double_communicator.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "double_state.hpp"
#include <mpi.h>

namespace nccl_double {
namespace {

template <class T>
std::vector<char> bytes_of(const T& value) {
  std::vector<char> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

void start_setup(ncclComm& comm) {
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  const std::array<int, 2> mine{comm.rank, world_rank};
  comm.setup.send(comm.creator, comm.tag(kSetupTag), bytes_of(mine));
  if (world_rank == comm.creator) {
    for (int r = 0; r < comm.size; ++r) {
      comm.setup.receive(MPI_ANY_SOURCE, comm.tag(kSetupTag), sizeof mine);
    }
  }
  comm.table.receive(comm.creator, comm.tag(kTableTag), sizeof(int) * comm.world_ranks.size());
}

void advance_setup(ncclComm& comm) {
  if (!comm.setup.finished()) {
    return;
  }
  if (!comm.has_answered && !comm.setup.in.empty()) {
    comm.has_answered = true;
    for (const auto& bytes : comm.setup.in) {
      std::array<int, 2> theirs{};
      std::memcpy(theirs.data(), bytes.data(), bytes.size());
      comm.world_ranks[static_cast<std::size_t>(theirs[0])] = theirs[1];
    }
    std::vector<char> bytes(sizeof(int) * comm.world_ranks.size());
    std::memcpy(bytes.data(), comm.world_ranks.data(), bytes.size());
    for (const int peer : comm.world_ranks) {
      comm.table.send(peer, comm.tag(kTableTag), bytes);
    }
  }
  if (comm.table.finished()) {
    std::memcpy(comm.world_ranks.data(), comm.table.in[0].data(), comm.table.in[0].size());
    comm.phase = ncclComm::Phase::kReady;
  }
}

}  // namespace

void advance_background(ncclComm& comm) {
  if (comm.stuck || comm.error != ncclSuccess) {
    return;
  }
  if (comm.polls_left > 0) {
    --comm.polls_left;
    return;
  }
  const Switches& switches = state().switches;
  if (comm.phase == ncclComm::Phase::kInit) {
    if (switches.init_error != ncclSuccess) {
      comm.fail(switches.init_error, "NET/Socket : no interface found");
    } else {
      if (comm.setup.sends.empty()) {
        start_setup(comm);
      }
      advance_setup(comm);
    }
  } else if (comm.phase == ncclComm::Phase::kFinalizing) {
    if (switches.finalize_error != ncclSuccess) {
      comm.fail(switches.finalize_error, "proxy did not stop");
    } else if (comm.goodbye.finished()) {
      comm.phase = ncclComm::Phase::kFinalized;
    }
  } else if (comm.launch) {
    std::exchange(comm.launch, nullptr)();
  }
}

}  // namespace nccl_double
