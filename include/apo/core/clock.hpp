#pragma once

/// @file
/// Wall time for logs and measurements. Nothing that is computed may depend on it.

#include <chrono>
#include <string>

namespace apo {

[[nodiscard]] std::string utc_now();  ///< "2026-11-30T17:02:11Z"

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  void restart() { start_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// "4m51s", "2h03m", "12.3s"
[[nodiscard]] std::string human_duration(double seconds);

}  // namespace apo
