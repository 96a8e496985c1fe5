#pragma once

/// @file
/// How long the NCCL back end waits before it gives a team up.
///
/// Room rule: comm may include core only. No mpi.h, nccl.h or torch in this header.

namespace apo::comm {

/// Read when a team is split: a team keeps the limits that it was made with.
struct NcclLimits {
  /// s for one collective, and for the creation and the close of a team; 0: no limit. It has to
  /// exceed the time by which the ranks of a team may differ in arriving.
  double timeout = 600.0;
  /// s, > 0, for what follows a failure: for the peers to learn of it, and for ncclCommAbort, which
  /// can hang; the process ends when it does.
  double grace = 30.0;
};

/// For the whole process; call it on all ranks alike and from the thread that communicates, before
/// the first split. Does nothing in a build without NCCL.
///
/// @throws Error(kInternal)  a limit that is negative or not finite, or no grace
void set_nccl_limits(const NcclLimits& limits);

[[nodiscard]] NcclLimits nccl_limits() noexcept;

/// Limits that strike before a watchdog does: the ranks of a team agree on what went wrong, a
/// watchdog can only end the job.
/// @param timeout  the watchdog's, s
[[nodiscard]] NcclLimits nccl_limits_before_watchdog(double timeout);

}  // namespace apo::comm
