#include "watchdog_board.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::comm {
namespace {

constexpr std::size_t kWords = sizeof(RankReport) / sizeof(std::uint64_t);
static_assert(sizeof(RankReport) == kWords * sizeof(std::uint64_t));
static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "atomics with a lock of their own do not work between processes");

constexpr std::size_t kMostWaitingNamed = 8;

template <std::size_t N>
void assign(std::array<char, N>& out, std::string_view text) {
  out.fill('\0');
  std::memcpy(out.data(), text.data(), std::min(text.size(), N - 1));
}

}  // namespace

void RankReport::set_texts(std::string_view collective_text, std::string_view position_text) {
  assign(collective, collective_text);
  assign(position, position_text);
}

struct WatchdogBoard::Header {
  std::atomic<std::uint64_t> word_claimed;
};

struct WatchdogBoard::Slot {
  std::atomic<std::uint64_t> version;  ///< 0: nothing yet; odd: being written
  std::array<std::atomic<std::uint64_t>, kWords> words;
};

std::size_t WatchdogBoard::size_in_bytes(int num_slots) {
  return sizeof(Header) + static_cast<std::size_t>(num_slots) * sizeof(Slot);
}

// Zeroed memory is a valid state of these atomics, whichever process maps it first.
WatchdogBoard::WatchdogBoard(void* memory, int num_slots)
    : header_(static_cast<Header*>(memory)),
      slots_(reinterpret_cast<Slot*>(static_cast<char*>(memory) + sizeof(Header))),
      num_slots_(num_slots) {}

WatchdogBoard::Slot& WatchdogBoard::slot(int index) const {
  expects(index >= 0 && index < num_slots_, "watchdog: no such slot");
  return slots_[index];
}

void WatchdogBoard::publish(int index, const RankReport& report) {
  Slot& target = slot(index);
  const auto words = std::bit_cast<std::array<std::uint64_t, kWords>>(report);
  const std::uint64_t version = target.version.load(std::memory_order_relaxed);
  target.version.store(version + 1, std::memory_order_relaxed);
  for (std::size_t k = 0; k < kWords; ++k) {
    // Release: who sees one of these words also sees the odd version and discards what it read.
    target.words[k].store(words[k], std::memory_order_release);
  }
  target.version.store(version + 2, std::memory_order_release);
}

std::optional<RankReport> WatchdogBoard::read(int index) const {
  const Slot& source = slot(index);
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t version = source.version.load(std::memory_order_acquire);
    if (version == 0) {
      return std::nullopt;
    }
    std::array<std::uint64_t, kWords> words{};
    for (std::size_t k = 0; k < kWords; ++k) {
      words[k] = source.words[k].load(std::memory_order_acquire);
    }
    if (version % 2 == 0 && source.version.load(std::memory_order_relaxed) == version) {
      return std::bit_cast<RankReport>(words);
    }
  }
  return std::nullopt;  // its writer was stopped in the middle
}

bool WatchdogBoard::claim_the_word() {
  return header_->word_claimed.exchange(1, std::memory_order_acq_rel) == 0;
}

namespace {

double seconds_silent(const RankReport& report, std::int64_t now_ns) {
  return std::max(0.0, static_cast<double>(now_ns - report.published_ns) * 1e-9);
}

/// Upper bound of the time since the last progress: a process that does not report made none.
double seconds_idle(const RankReport& report, std::int64_t now_ns) {
  return report.idle_seconds + seconds_silent(report, now_ns);
}

/// ", phase1 round 57" after `separator`, or nothing.
std::string position_of(const RankReport& report, const char* separator) {
  return report.position[0] == '\0' ? std::string()
                                    : fmt::format("{}{}", separator, report.position.data());
}

std::string place_of(const RankReport& report) {
  if (report.waiting != 0) {
    return fmt::format(" in {}{}", report.collective.data(), position_of(report, ", "));
  }
  return position_of(report, " in ");
}

std::string compose(const std::vector<RankReport>& reports, std::int64_t now_ns,
                    const WatchdogLimits& limits, int num_ranks, const std::string& host) {
  std::string blamed;
  std::string waiting;
  std::size_t num_waiting = 0;
  const auto separate = [](std::string& list) { list += list.empty() ? "" : "; "; };
  for (const RankReport& report : reports) {
    const double idle = seconds_idle(report, now_ns);
    const double silent = seconds_silent(report, now_ns);
    if (report.left != 0) {
      continue;
    }
    if (silent >= limits.silence) {
      separate(blamed);
      blamed += fmt::format(
          "rank {} of {} ({}) gives no sign of life for {:.0f} s: its process is stopped or gone, "
          "last seen{}",
          report.rank, num_ranks, host, silent, place_of(report));
    } else if (report.waiting == 0 && idle >= limits.timeout) {
      separate(blamed);
      blamed += fmt::format("rank {} of {} ({}) made no progress for {:.0f} s{}", report.rank,
                            num_ranks, host, idle, place_of(report));
    } else if (report.waiting != 0 && ++num_waiting <= kMostWaitingNamed) {
      separate(waiting);
      waiting += fmt::format("rank {} waits{}", report.rank, place_of(report));
    }
  }
  if (num_waiting > kMostWaitingNamed) {
    waiting += fmt::format("; and {} more ranks", num_waiting - kMostWaitingNamed);
  }
  if (!blamed.empty()) {
    return waiting.empty() ? blamed : blamed + "; " + waiting;
  }
  const bool whole_job = static_cast<int>(reports.size()) == num_ranks;
  return fmt::format("no progress for {:.0f} s on {}: {}: {}", limits.timeout, host,
                     whole_job ? "all ranks wait, in collectives that do not match"
                               : "its ranks wait for ranks of other hosts",
                     waiting);
}

}  // namespace

std::optional<std::string> judge(const std::vector<RankReport>& reports, int me,
                                 std::int64_t now_ns, const WatchdogLimits& limits, int num_ranks,
                                 const std::string& host) {
  const auto mine = std::find_if(reports.begin(), reports.end(),
                                 [me](const RankReport& report) { return report.rank == me; });
  expects(mine != reports.end(), "watchdog: no report of this rank");
  // This rank's own clock stands still while the whole process is stopped, so a job that was
  // suspended and continued starts no false alarm.
  if (mine->idle_seconds < limits.timeout + (mine->waiting != 0 ? limits.grace : 0.0)) {
    return std::nullopt;
  }
  if (mine->waiting != 0 &&
      std::any_of(reports.begin(), reports.end(), [&](const RankReport& report) {
        return report.left == 0 && seconds_idle(report, now_ns) < limits.timeout;
      })) {
    return std::nullopt;  // it waits for somebody who is at work
  }
  return compose(reports, now_ns, limits, num_ranks, host);
}

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace apo::comm
