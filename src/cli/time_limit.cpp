#include "time_limit.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

const Stopwatch g_since_loaded;  // starts before main

constexpr double kMarginShare = 0.02;
constexpr double kLeastMargin = 5.0;
constexpr double kLargestMargin = 120.0;

constexpr long kLargestNumber = 100000;  // days or minutes: far beyond any queue

/// Loading the libraries alone may take seconds on a cold file system, so the kernel is asked when
/// the process began (proc(5), field 22 of stat: clock ticks since boot).
double seconds_before_loaded() {
  std::ifstream in("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto end_of_name = text.rfind(')');
  timespec now = {};
  if (end_of_name == std::string::npos || clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    return 0.0;
  }
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int number = 3; number < 22; ++number) {
    fields >> field;
  }
  double ticks = 0.0;
  if (!(fields >> ticks)) {
    return 0.0;
  }
  const double began = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double age = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
                     began - g_since_loaded.seconds();
  return std::max(0.0, age);
}

}  // namespace

double parse_walltime(std::string_view key, std::string_view text) {
  const auto refuse = [&] {
    return Error(Fault::kConfig,
                 fmt::format("{}: expected a time limit such as 90 (minutes), 01:30:00 or "
                             "2-12:00:00, found '{}'",
                             key, text));
  };
  std::vector<long> numbers;
  const auto dash = text.find('-');
  std::string_view rest = text;
  const auto take = [&](std::string_view digits) {
    long value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || code != std::errc{} || end != digits.data() + digits.size() ||
        value < 0 || value > kLargestNumber) {
      throw refuse();
    }
    return value;
  };
  long days = 0;
  if (dash != std::string_view::npos) {
    days = take(rest.substr(0, dash));
    rest.remove_prefix(dash + 1);
  }
  for (;;) {
    const auto colon = rest.find(':');
    numbers.push_back(take(rest.substr(0, colon)));
    if (colon == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(colon + 1);
  }
  if (numbers.size() > 3) {
    throw refuse();
  }
  if (dash != std::string_view::npos) {  // D-HH[:MM[:SS]]
    numbers.resize(3, 0);
  } else if (numbers.size() == 1) {  // MM
    numbers = {0, numbers[0], 0};
  } else if (numbers.size() == 2) {  // MM:SS
    numbers = {0, numbers[0], numbers[1]};
  }
  const double seconds = 86400.0 * static_cast<double>(days) +
                         3600.0 * static_cast<double>(numbers[0]) +
                         60.0 * static_cast<double>(numbers[1]) + static_cast<double>(numbers[2]);
  if (!(seconds > 0.0)) {
    throw refuse();
  }
  return seconds;
}

double seconds_of_process() {
  static const double before = seconds_before_loaded();
  return before + g_since_loaded.seconds();
}

void TimeLimit::add_round(double seconds) { slowest_round_ = std::max(slowest_round_, seconds); }

void TimeLimit::add_checkpoint(double seconds) {
  slowest_checkpoint_ = std::max(slowest_checkpoint_, seconds);
}

double TimeLimit::needed() const {
  return slowest_round_ + slowest_checkpoint_ +
         std::clamp(kMarginShare * limit_, kLeastMargin, kLargestMargin);
}

bool TimeLimit::must_stop(double elapsed) const {
  return limit_ > 0.0 && elapsed + needed() > limit_;
}

}  // namespace apo::cli
