#include "process_end.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "activity_state.hpp"
#include <fmt/format.h>
#include <unistd.h>

namespace apo::comm {
namespace {

struct FatalSignal {
  int number;
  const char* name;
};

constexpr std::array<FatalSignal, 5> kFatalSignals = {{{SIGSEGV, "SIGSEGV"},
                                                       {SIGBUS, "SIGBUS"},
                                                       {SIGFPE, "SIGFPE"},
                                                       {SIGILL, "SIGILL"},
                                                       {SIGABRT, "SIGABRT"}}};

// Written once before the handlers are installed; handlers only read.
std::array<char, 320> rank_prefix{};
std::array<struct sigaction, kFatalSignals.size()> previous_actions{};

volatile std::sig_atomic_t code_of_late_exit = 70;

/// Async-signal-safe calls only.
void on_fatal_signal(int number) {
  const int saved_errno = errno;
  std::array<char, 1024> line{};
  std::size_t used = 0;
  const auto add = [&](const char* text) {
    for (; *text != '\0' && used + 1 < line.size(); ++text) {
      line[used++] = *text;
    }
  };
  std::size_t index = 0;
  while (index + 1 < kFatalSignals.size() && kFatalSignals[index].number != number) {
    ++index;
  }
  add(rank_prefix.data());
  add("killed by ");
  add(kFatalSignals[index].name);
  add(": ");
  const std::size_t before = used;
  used += activity_text_in_signal(line.data() + used, line.size() - 1 - used);
  if (used == before) {
    used -= 2;  // nothing to say after the colon
  }
  line[used++] = '\n';
  write_to_stderr({line.data(), used});
  // Handled once more, and not by us: it is blocked until this handler returns.
  ::sigaction(number, &previous_actions[index], nullptr);
  ::raise(number);
  errno = saved_errno;
}

void on_late_exit(int /*number*/) { ::_exit(code_of_late_exit); }

}  // namespace

void write_to_stderr(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t done = ::write(STDERR_FILENO, text.data(), text.size());
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

void name_fatal_signals(int rank, const std::string& host) {
  const std::string prefix = fmt::format("[rank {} {}] ", rank, host);
  std::memcpy(rank_prefix.data(), prefix.data(), std::min(prefix.size(), rank_prefix.size() - 1));
  for (std::size_t i = 0; i < kFatalSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = on_fatal_signal;
    action.sa_flags = SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(kFatalSignals[i].number, &action, &previous_actions[i]);
  }
}

void exit_later(unsigned seconds, int code) noexcept {
  code_of_late_exit = code;
  struct sigaction action {};
  action.sa_handler = on_late_exit;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGALRM, &action, nullptr);
  ::alarm(seconds);
}

}  // namespace apo::comm
