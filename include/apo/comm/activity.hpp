#pragma once

/// @file
/// What this rank is doing, for messages: of the watchdog, of errors, of fatal signals.
///
/// Room rule: comm may include core only. No mpi.h, nccl.h or torch in this header.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace apo::comm {

/// Place in the run. Numbers < 0 and empty texts: not known.
struct Position {
  std::array<char, 32> phase{};        ///< "phase1", "reference losses"
  std::array<char, 64> client_name{};  ///< longer names are cut
  int round = -1;                      ///< 0-based
  int cluster = -1;
  int client = -1;  ///< ClientId
};

/// "phase1 round 57 cluster 2 client 17 'alice'": what this scope does; the destructor goes back to
/// the scope around it. To be used by the thread that owns the World, one scope per client or
/// coarser (it costs well below a microsecond). Each begin and end counts as progress.
///
/// When an exception leaves a scope, the innermost one is remembered for at_activity().
class Activity {
 public:
  /// What is not given is taken from the scope around this one.
  explicit Activity(std::string_view phase, int round = -1, int cluster = -1, int client = -1,
                    std::string_view client_name = {}) noexcept;
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  Position outer_;
  int exceptions_at_start_;
};

/// Counts as progress, for loops inside an Activity that take long: one optimiser step.
void note_progress() noexcept;

/// "phase1 round 57 cluster 2 client 17 'alice' on rank 1 (host): message". The activity is the one
/// in which the last exception was thrown, otherwise the present one; the rank is left out in a job
/// of one rank. `message` alone when there is no activity, or when the failure in flight has been
/// described already (once per failure: errors agreed among ranks carry the failing rank's own).
[[nodiscard]] std::string at_activity(std::string message);

/// The exception about to be thrown names its place itself: at_activity() adds none.
void failure_is_described() noexcept;

}  // namespace apo::comm
