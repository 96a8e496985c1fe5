#pragma once

/// @file
/// What the ranks of one host tell each other about their progress, through memory that they share,
/// and what is concluded from it. Free of MPI. Private to comm.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace apo::comm {

/// One rank, as its watchdog thread last saw it.
struct RankReport {
  std::int32_t rank = -1;              ///< in the world
  std::int32_t waiting = 0;            ///< 1: inside a collective operation
  std::int32_t left = 0;               ///< 1: has stopped being watched
  std::int32_t unused = 0;             ///< the size is a multiple of 8
  double idle_seconds = 0.0;           ///< since its last progress, at published_ns
  std::int64_t published_ns = 0;       ///< CLOCK_MONOTONIC, the same for all of a host
  std::array<char, 128> collective{};  ///< "all_reduce 4182 of all ranks", cut
  std::array<char, 160> position{};    ///< "phase1 round 57 cluster 2", cut

  void set_texts(std::string_view collective_text, std::string_view position_text);
};

/// Slots of RankReports in memory that several processes may map. Lock-free, so that a process that
/// is stopped or killed cannot hold up the others.
class WatchdogBoard {
 public:
  /// Bytes of memory for `num_slots` ranks; to be zero at first.
  [[nodiscard]] static std::size_t size_in_bytes(int num_slots);

  WatchdogBoard(void* memory, int num_slots);

  void publish(int slot, const RankReport& report);  ///< one thread per slot
  /// What the slot holds; none before its first publish(), or when it is just being written.
  [[nodiscard]] std::optional<RankReport> read(int slot) const;
  [[nodiscard]] int num_slots() const noexcept { return num_slots_; }
  /// True for the first caller of all processes: it tells the user.
  [[nodiscard]] bool claim_the_word();

 private:
  struct Header;
  struct Slot;
  [[nodiscard]] Slot& slot(int index) const;

  Header* header_;
  Slot* slots_;
  int num_slots_;
};

struct WatchdogLimits {
  double timeout = 600.0;  ///< s
  double grace = 5.0;      ///< s that a rank inside a collective waits longer before it speaks
  double silence = 5.0;    ///< s without a report after which a process counts as stopped
};

/// The message that ends the job, or none: nothing is wrong as far as rank `me` can tell.
///
/// A rank that is in no collective is to blame for its own time-out. A rank that waits inside one
/// blames nobody as long as any rank of its host made progress within the time-out.
///
/// @param reports    of this host's ranks, `me` among them
/// @param me         world rank of the caller
/// @param num_ranks  of the job
[[nodiscard]] std::optional<std::string> judge(const std::vector<RankReport>& reports, int me,
                                               std::int64_t now_ns, const WatchdogLimits& limits,
                                               int num_ranks, const std::string& host);

[[nodiscard]] std::int64_t monotonic_ns();

}  // namespace apo::comm
