#pragma once

/// @file
/// The thread of a Watchdog. Free of MPI. Private to comm.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "activity_state.hpp"
#include "watchdog_board.hpp"

namespace apo::comm {

/// Looks at this process' activity every `tick`, publishes it on the board, and calls `alarm` once
/// when judge() finds something wrong.
class WatchdogThread {
 public:
  struct Settings {
    WatchdogLimits limits;
    double tick = 1.0;  ///< s
    int rank = 0;
    int num_ranks = 1;
    std::string host;
    int slot = 0;  ///< of this rank on the board
    /// What to do, on the watchdog's thread; an empty text: another rank tells the user.
    std::function<void(const std::string& message)> alarm;
  };

  WatchdogThread(Settings settings, WatchdogBoard board);
  ~WatchdogThread();  ///< stops and joins; other ranks no longer count on this one's progress
  WatchdogThread(const WatchdogThread&) = delete;
  WatchdogThread& operator=(const WatchdogThread&) = delete;

 private:
  void watch();
  void publish(const ActivitySnapshot& now);
  [[nodiscard]] std::vector<RankReport> reports() const;
  [[nodiscard]] bool stopped_within_a_tick();

  Settings settings_;
  WatchdogBoard board_;
  RankReport mine_;  ///< of the watchdog's thread, once it runs
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace apo::comm
