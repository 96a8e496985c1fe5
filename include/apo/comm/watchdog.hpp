#pragma once

/// @file
/// Ends a job that no longer makes progress, and says which rank is stuck where.
///
/// Room rule: comm may include core only. No mpi.h, nccl.h or torch in this header.

#include <memory>

namespace apo::comm {

class World;

/// A thread that looks at what this rank does (Activity, collectives of ClusterCommunicator) until
/// the object ends. Progress is any begin or end of an activity or collective, and
/// note_progress(). When a rank makes none for `timeout` seconds, one line to stderr names it, its
/// place in the run, and which ranks of its host wait for it in which collective; then the process
/// ends with code 74, which makes mpirun or srun end the other ranks. (MPI_Abort is not for this
/// thread: MPI runs with MPI_THREAD_FUNNELED, and may itself be what is stuck.)
///
/// A rank that waits inside a collective is to blame only when no rank of its host made progress
/// within the time-out, and speaks a few seconds later than a rank outside would. So these must be
/// shorter than the time-out: any step without an Activity or note_progress() inside (one
/// checkpoint, the evaluation of one client), and, in jobs over several hosts, the time that all
/// ranks of one host may have to wait for another host (the imbalance of a round).
///
/// Processes of one host see each other's progress through shared memory; where there is none, each
/// rank knows its own only. Time in which the process is stopped or suspended does not count.
class Watchdog {
 public:
  /// Collective over the world.
  ///
  /// @param timeout  s; 0: no thread is started
  Watchdog(World& world, double timeout);
  ~Watchdog();  ///< never communicates
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace apo::comm
