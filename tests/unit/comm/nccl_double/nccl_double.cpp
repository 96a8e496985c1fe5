#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "double_communicator.hpp"
#include "double_messages.hpp"
#include "double_state.hpp"
#include <mpi.h>

namespace nccl_double {
namespace {

/// Communicators that are gone, kept so that a later use is seen, and because MPI may still read
/// the bytes of messages that nobody received.
std::vector<std::unique_ptr<ncclComm>> graveyard;

bool is_usable(ncclComm_t comm, const char* call) {
  if (comm == nullptr || comm->phase == ncclComm::Phase::kGone) {
    violation(std::string(call) + " on a communicator that is gone");
    return false;
  }
  return true;
}

const char* payload(const std::vector<char>& message) { return message.data() + sizeof(Header); }

void post(ncclComm& comm, Exchange& exchange, const Header& header, const char* source,
          std::size_t size) {
  std::vector<char> message(sizeof header + size);
  std::memcpy(message.data(), &header, sizeof header);
  std::memcpy(message.data() + sizeof header, source, size);
  const bool sends = header.root < 0 || header.root == comm.rank;
  for (int r = 0; r < comm.size; ++r) {
    const int peer = comm.world_ranks[static_cast<std::size_t>(r)];
    if (sends) {
      exchange.send(peer, comm.tag(kDataTag), message);
    }
    if (header.root < 0 || header.root == r) {
      exchange.receive(peer, comm.tag(kDataTag), message.size());
    }
  }
}

/// A reduction adds in the order of ranks; a broadcast takes the root's only message.
void collect(const Exchange& exchange, const Header& header, char* target, std::size_t size) {
  for (const auto& message : exchange.in) {
    if (std::memcmp(message.data(), &header, sizeof header) != 0) {
      violation("ranks of one communicator call different collectives");
      return;
    }
  }
  std::memcpy(target, payload(exchange.in[0]), size);
  for (std::size_t r = 1; r < exchange.in.size(); ++r) {
    fold(target, payload(exchange.in[r]), header);
  }
}

ncclResult_t start(ncclComm_t comm, Header header, const void* send, void* receive,
                   cudaStream_t stream, const char* call) {
  record(call);
  if (!is_usable(comm, call)) {
    return ncclInvalidArgument;
  }
  if (comm->phase != ncclComm::Phase::kReady || comm->launch) {
    violation(std::string(call) + " on a communicator in progress");
    return ncclInvalidArgument;
  }
  if (state().in_flight > 0) {
    violation("two collectives of one process in flight");
    return ncclInvalidUsage;
  }
  const int at = ++state().num_collectives;
  const Switches& switches = state().switches;
  if (switches.async_error_at == at) {
    comm->fail(switches.async_error, "NET/IB : got completion from peer with status=12");
  }
  const std::size_t size =
      static_cast<std::size_t>(header.count) * size_of(static_cast<ncclDataType_t>(header.type));
  char* source = device_bytes(send, size);
  char* target = device_bytes(receive, size);
  if (source == nullptr || target == nullptr) {
    return ncclInvalidArgument;
  }
  header.number = ++comm->num_collectives;
  ++state().in_flight;
  auto exchange = std::make_shared<Exchange>();
  comm->collectives.push_back(exchange);
  const bool never_starts = at == switches.stuck_before || at == switches.async_error_at;
  const bool never_ends = at == switches.stuck_after;
  comm->polls_left = switches.launch_polls;
  comm->launch = [=, has_started = std::make_shared<bool>(false)] {
    stream->steps.push_back({comm, [=] {
                               if (never_starts) {
                                 return false;
                               }
                               if (!std::exchange(*has_started, true)) {
                                 post(*comm, *exchange, header, source, size);
                               }
                               if (!exchange->finished() || never_ends) {
                                 return false;
                               }
                               collect(*exchange, header, target, size);
                               std::erase(comm->collectives, exchange);
                               --state().in_flight;
                               return true;
                             }});
  };
  if (comm->polls_left == 0) {
    std::exchange(comm->launch, nullptr)();
    return ncclSuccess;
  }
  return ncclInProgress;
}

ncclResult_t bury(ncclComm_t comm) {
  comm->phase = ncclComm::Phase::kGone;
  comm->launch = nullptr;
  --state().live.communicators;
  graveyard.emplace_back(comm);
  return ncclSuccess;
}

[[noreturn]] void sleep_for_ever() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

}  // namespace
}  // namespace nccl_double

using namespace nccl_double;  // NOLINT: the functions below are the double

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = state().switches.version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) { return comm != nullptr ? comm->text.c_str() : ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  record("ncclGetUniqueId");
  if (state().switches.unique_id_error != ncclSuccess) {
    return state().switches.unique_id_error;
  }
  static int num_ids = 0;
  int world_rank = 0;
  int world_size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  *id = {};
  const std::array<int, 2> content{world_rank, world_rank + world_size * num_ids++};
  std::memcpy(id->internal, content.data(), sizeof content);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  record("ncclCommInitRankConfig");
  if (config->blocking != 0 || config->size != sizeof *config || config->magic != 0xcafebeef) {
    violation("a blocking communicator, or a configuration that is not initialised");
  }
  if (state().current_device < 0) {
    violation("ncclCommInitRankConfig before cudaSetDevice");
  }
  if (state().switches.hang_init) {
    sleep_for_ever();
  }
  if (state().switches.init_refused != ncclSuccess) {
    *comm = nullptr;
    return state().switches.init_refused;
  }
  auto* made = new ncclComm;
  made->rank = rank;
  made->size = nranks;
  made->world_ranks.resize(static_cast<std::size_t>(nranks));
  std::array<int, 2> content{};
  std::memcpy(content.data(), id.internal, sizeof content);
  made->creator = content[0];
  made->number = content[1];
  made->polls_left = state().switches.init_polls;
  made->stuck = state().switches.init_stuck;
  ++state().live.communicators;
  *comm = made;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  record("ncclCommGetAsyncError");
  if (!is_usable(comm, "ncclCommGetAsyncError")) {
    return ncclInvalidArgument;
  }
  advance_background(*comm);
  const bool in_progress = comm->phase == ncclComm::Phase::kInit ||
                           comm->phase == ncclComm::Phase::kFinalizing || comm->launch;
  *error = comm->error != ncclSuccess ? comm->error : in_progress ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  record("ncclCommFinalize");
  if (!is_usable(comm, "ncclCommFinalize")) {
    return ncclInvalidArgument;
  }
  if (comm->phase != ncclComm::Phase::kReady || comm->launch || state().in_flight > 0) {
    violation("ncclCommFinalize with a collective in flight, or twice");
    return ncclInvalidArgument;
  }
  comm->phase = ncclComm::Phase::kFinalizing;
  comm->polls_left = state().switches.finalize_polls;
  comm->stuck = state().switches.finalize_stuck;
  if (!comm->stuck) {
    for (const int peer : comm->world_ranks) {
      comm->goodbye.send(peer, comm->tag(kGoodbyeTag), {'x'});
      comm->goodbye.receive(peer, comm->tag(kGoodbyeTag), 1);
    }
  }
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  record("ncclCommDestroy");
  if (!is_usable(comm, "ncclCommDestroy")) {
    return ncclInvalidArgument;
  }
  if (comm->phase != ncclComm::Phase::kFinalized) {
    violation("ncclCommDestroy before the end of ncclCommFinalize");
  }
  if (state().switches.hang_destroy) {
    sleep_for_ever();
  }
  return bury(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  record("ncclCommAbort");
  if (!is_usable(comm, "ncclCommAbort")) {
    return ncclInvalidArgument;
  }
  if (state().switches.hang_abort) {
    sleep_for_ever();
  }
  remove_steps(comm);
  for (const auto& exchange : comm->collectives) {
    exchange->cancel();
    --state().in_flight;
  }
  comm->setup.cancel();
  comm->table.cancel();
  comm->goodbye.cancel();
  return bury(comm);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return start(comm, {1, type, op, -1, static_cast<std::int64_t>(count), 0}, send, receive, stream,
               "ncclAllReduce");
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return start(comm, {2, type, 0, root, static_cast<std::int64_t>(count), 0}, send, receive, stream,
               "ncclBroadcast");
}

}  // extern "C"
