#pragma once

/// @file
/// When a job has to stop to be done before its time limit.

#include <string>
#include <string_view>

namespace apo::cli {

/// Seconds of a time as SLURM writes it: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS.
/// @param key  the configuration key, for the message
/// @throws Error(kConfig)  another form, or no time at all
[[nodiscard]] double parse_walltime(std::string_view key, std::string_view text);

/// Seconds since this process began.
[[nodiscard]] double seconds_of_process();

/// Knows from the rounds and checkpoints so far what the next ones may take.
class TimeLimit {
 public:
  /// @param limit  of the whole process, in seconds; 0: none
  explicit TimeLimit(double limit = 0.0) : limit_(limit) {}

  void add_round(double seconds);
  void add_checkpoint(double seconds);

  /// What has to be left for one more round and its checkpoint: the slowest of each so far, and a
  /// margin of 2 % of the limit, at least 5 s and at most 2 min, for what comes after.
  [[nodiscard]] double needed() const;
  /// @param elapsed  seconds of the process so far
  [[nodiscard]] bool must_stop(double elapsed) const;

 private:
  double limit_;
  double slowest_round_ = 0.0;
  double slowest_checkpoint_ = 0.0;
};

}  // namespace apo::cli
