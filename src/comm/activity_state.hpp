#pragma once

/// @file
/// The activity of this process as the watchdog and the fatal signals see it. Private to comm.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "apo/comm/activity.hpp"

namespace apo::comm {

/// Around a collective operation: from here to the end of the scope this rank waits for others.
class InCollective {
 public:
  /// @param name      static text, "all_reduce"
  /// @param sequence  number of the collective in its communicator, from 1
  /// @param team      "all ranks"; must outlive the scope
  InCollective(const char* name, std::int64_t sequence, const std::string& team) noexcept;
  ~InCollective();
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  struct Outer {
    const char* name;
    std::int64_t sequence;
    const std::string* team;
  };
  friend class OutOfCollective;
  Outer outer_;
  int exceptions_at_start_;
};

/// Around a caller's code that runs inside a collective: it is not waiting for anybody.
class OutOfCollective {
 public:
  OutOfCollective() noexcept;
  ~OutOfCollective();
  OutOfCollective(const OutOfCollective&) = delete;
  OutOfCollective& operator=(const OutOfCollective&) = delete;

 private:
  InCollective::Outer outer_;
};

struct ActivitySnapshot {
  std::uint64_t progress = 0;  ///< grows with every change
  std::string collective;      ///< "all_reduce 4182 of all ranks"; empty: in none
  std::string position;        ///< "phase1 round 57 cluster 2"; may be empty
};

[[nodiscard]] ActivitySnapshot activity_snapshot();  ///< any thread

/// The same as one text, without locks, for a signal handler: may be torn when another thread is
/// changing it. @return characters written, at most `size`
std::size_t activity_text_in_signal(char* out, std::size_t size) noexcept;

/// Who this process is, for at_activity(); of World.
void set_rank_of_messages(int rank, int size, const std::string& host);

/// at_activity() without the rank.
[[nodiscard]] std::string at_activity_of_this_rank(std::string message);

}  // namespace apo::comm
