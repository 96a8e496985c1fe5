#include "stop_signals.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

struct Known {
  std::string_view name;
  int number;
};
constexpr std::array<Known, 5> kKnown = {
    {{"TERM", SIGTERM}, {"INT", SIGINT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}}};

// What a handler may touch: handlers have no argument of ours.
volatile std::sig_atomic_t g_first_signal = 0;
volatile std::sig_atomic_t g_times_asked = 0;
timespec g_last_signal = {};  // of handlers only; they block each other

std::string g_other_reason;  // never touched by a handler
std::vector<int> g_caught;

constexpr double kOneSignalSeconds = 0.5;

void say(std::string_view text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  (void)ignored;
}

extern "C" void on_stop_signal(int number) {
  const int saved = errno;
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double since = static_cast<double>(now.tv_sec - g_last_signal.tv_sec) +
                       1e-9 * static_cast<double>(now.tv_nsec - g_last_signal.tv_nsec);
  if (g_times_asked == 0 || since >= kOneSignalSeconds) {
    g_last_signal = now;
    g_times_asked = g_times_asked + 1;
    if (g_times_asked == 1) {
      g_first_signal = number;
    } else if (g_times_asked == 2) {
      say("apo: stopping with a checkpoint at the end of the round is under way; a third signal "
          "ends the job at once\n");
    } else {
      say("apo: third signal: ends at once, without a checkpoint\n");
      std::signal(number, SIG_DFL);
      std::raise(number);  // pending until this handler returns
    }
  }
  errno = saved;
}

std::string_view name_of(int number) {
  for (const Known& known : kKnown) {
    if (known.number == number) {
      return known.name;
    }
  }
  return "?";
}

int number_of(const std::string& name) {
  for (const Known& known : kKnown) {
    if (known.name == name || name == fmt::format("SIG{}", known.name)) {
      return known.number;
    }
  }
  throw Error(Fault::kConfig,
              fmt::format("checkpoint.stop_signals: expected TERM, INT, USR1, USR2 or HUP, found "
                          "'{}'",
                          name));
}

}  // namespace

void install_stop_signals(const std::vector<std::string>& names) {
  std::vector<int> numbers;
  for (const std::string& name : names) {
    numbers.push_back(number_of(name));
  }
  for (const int number : g_caught) {
    std::signal(number, SIG_DFL);
  }
  g_caught = numbers;
  for (const int number : numbers) {
    struct sigaction action = {};
    action.sa_handler = on_stop_signal;
    action.sa_flags = SA_RESTART;  // MPI's and HDF5's calls go on
    sigemptyset(&action.sa_mask);
    for (const int other : numbers) {
      sigaddset(&action.sa_mask, other);
    }
    if (::sigaction(number, &action, nullptr) != 0) {
      throw_errno("sigaction", std::string(name_of(number)));
    }
  }
}

void request_stop(const std::string& reason) {
  if (g_other_reason.empty()) {
    g_other_reason = reason;
  }
}

bool stop_requested() noexcept { return g_times_asked > 0 || !g_other_reason.empty(); }

std::string stop_reason() {
  if (!g_other_reason.empty()) {
    return g_other_reason;
  }
  return g_times_asked > 0 ? fmt::format("signal {}", name_of(g_first_signal)) : "";
}

}  // namespace apo::cli
