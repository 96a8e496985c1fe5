#include "apo/core/clock.hpp"

#include <array>
#include <cmath>
#include <ctime>

#include "fmt/format.h"

namespace apo {

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), length};
}

std::string human_duration(double seconds) {
  if (!(seconds >= 0.0) || !std::isfinite(seconds)) {
    return "?";
  }
  if (seconds < 60.0) {
    return fmt::format("{:.1f}s", seconds);
  }
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) {
    return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  }
  return fmt::format("{}h{:02}m", whole / 3600, (whole % 3600) / 60);
}

}  // namespace apo
