#pragma once

/// @file
/// Controls of the test double of NCCL and the CUDA runtime: what it is to do wrong on this rank,
/// and what it saw.
///
/// The double behaves like the libraries where apo depends on it: memory of the device cannot be
/// touched by the host; a stream is a queue that runs in order and only in the background (here: in
/// cudaStreamQuery and ncclCommGetAsyncError); non-blocking communicators are made, launched on and
/// finalized in the background; collectives wait for all ranks and really compute, over
/// point-to-point messages on MPI_COMM_WORLD, which apo itself leaves alone.

#include <string>
#include <vector>

#include <nccl.h>

namespace nccl_double {

inline constexpr int kNever = 0;

/// Collectives are counted 1, 2, ... per process since reset(), pieces of long ones separately.
struct Switches {
  int num_devices = 8;
  bool same_uuid = false;  ///< all devices of all ranks are one
  int version = NCCL_VERSION_CODE;

  int init_polls = 0;      ///< polls of ncclCommGetAsyncError that find ncclInProgress
  int launch_polls = 0;    ///< likewise, after each collective
  int finalize_polls = 0;  ///< likewise

  ncclResult_t unique_id_error = ncclSuccess;  ///< of ncclGetUniqueId
  ncclResult_t init_refused = ncclSuccess;     ///< returned at once; the handle is then NULL
  ncclResult_t init_error = ncclSuccess;       ///< found by a poll
  bool init_stuck = false;
  ncclResult_t finalize_error = ncclSuccess;  ///< found by a poll
  bool finalize_stuck = false;

  int fail_malloc_from = kNever;  ///< cudaMalloc fails from this call on
  int async_error_at = kNever;    ///< this collective never starts here; error by poll
  ncclResult_t async_error = ncclRemoteError;
  int stream_error_at = kNever;  ///< cudaStreamQuery fails from this collective on
  int stuck_before = kNever;     ///< this collective never starts here, so it ends nowhere
  int stuck_after = kNever;      ///< this collective ends for the others, but never here
  bool hang_init = false;        ///< ncclCommInitRankConfig does not return
  bool hang_abort = false;       ///< ncclCommAbort does not return
  bool hang_destroy = false;     ///< ncclCommDestroy does not return
};

/// Handles that are alive now.
struct Live {
  int streams = 0;
  int device_buffers = 0;
  int pinned_buffers = 0;
  int communicators = 0;
  friend bool operator==(const Live&, const Live&) = default;
};

[[nodiscard]] Switches& switches();
[[nodiscard]] Live live();

/// Names of the calls since reset(), in order, equal neighbours once.
[[nodiscard]] const std::vector<std::string>& calls();
[[nodiscard]] int count_calls(const std::string& name);  ///< all of them, neighbours too

/// What no correct program does: two collectives in flight, a launch on a communicator in progress
/// or given back, two streams, pageable memory in an asynchronous copy, ranks that call different
/// collectives, ...
[[nodiscard]] const std::vector<std::string>& violations();

/// Default switches, nothing recorded. Handles stay alive.
void reset();

}  // namespace nccl_double
