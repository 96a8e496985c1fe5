#pragma once

/// @file
/// The life time of MPI in this process.
///
/// Room rule: comm may include core only. No mpi.h, nccl.h or torch in this header.

#include <memory>
#include <string>

namespace apo::comm {

class ClusterCommunicator;

/// MPI_Init_thread .. MPI_Finalize. The first object in main; everything that communicates lives
/// inside its life time. Sets MPI_ERRORS_RETURN, so that every code is checked by us. While it
/// lives, no end of the process is silent: an exception that escapes, exit() and fatal signals name
/// the rank and what it was doing, and the job's exit code is not 0.
class World {
 public:
  World(int* argc, char*** argv);
  ~World();  ///< finalises on the success path; never communicates when an exception is unwinding
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] int local_rank() const noexcept;  ///< among the ranks of this host
  [[nodiscard]] const std::string& host() const noexcept;
  [[nodiscard]] std::string library_version() const;  ///< "Open MPI v4.1.4 ..."

  /// All ranks, over MPI. Lives as long as the World.
  [[nodiscard]] ClusterCommunicator& all() const noexcept;

  /// Prints "[rank r host] activity: message" to stderr (at_activity() of activity.hpp) and ends
  /// the whole job with `code` (1..125). Never returns; never uses code 0.
  [[noreturn]] static void abort(int code, const std::string& message);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace apo::comm
