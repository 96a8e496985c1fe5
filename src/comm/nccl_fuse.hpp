#pragma once

/// @file
/// The last resort against library calls that may never return. Private to comm.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace apo::comm {

/// Ends the process when it is still alive after the grace time: built before a call that may hang
/// (ncclCommAbort waits for the kernels, proxy threads and neighbours that made it necessary),
/// destroyed after it.
class ExitFuse {
 public:
  using Action = std::function<void(const std::string& message)>;

  /// @param grace    s, > 0
  /// @param expiry   called once, on a thread of the fuse, when the time is up
  ExitFuse(double grace, std::string message, Action expiry = end_process);
  ~ExitFuse();  ///< disarms; waits for an action that has begun
  ExitFuse(const ExitFuse&) = delete;
  ExitFuse& operator=(const ExitFuse&) = delete;

  /// Writes the message to stderr and leaves by _exit(74): no destructor, no MPI (this is not the
  /// thread that may call it). The launcher sees the code and ends the other ranks.
  [[noreturn]] static void end_process(const std::string& message) noexcept;

 private:
  std::mutex mutex_;
  std::condition_variable disarmed_signal_;
  bool disarmed_ = false;
  std::thread thread_;
};

}  // namespace apo::comm
