#pragma once

/// @file
/// What went wrong in an operation of a team over NCCL, on one rank and in common. Private to comm.

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "apo/comm/nccl_limits.hpp"
#include "apo/core/error.hpp"

namespace apo::comm {

/// What one rank knows at the end of an operation.
struct Verdict {
  enum class Kind {
    kWell,
    kUnfinished,  ///< stopped waiting, because of the time limit or because a peer gave up
    kFailed,
  };
  Kind kind = Kind::kWell;
  Fault fault = Fault::kBackend;
  long code = 0;     ///< of the library
  std::string call;  ///< the call that failed; empty: `text` is the whole message
  std::string text;
};

[[nodiscard]] std::string pack(const Verdict& verdict);
[[nodiscard]] Verdict unpack(const std::string& bytes);

/// @throws BackendError (kBackend and a call) or Error
[[noreturn]] void raise(const Verdict& verdict);

/// A failed call on its way to the agreement; never leaves comm.
class CallError final : public std::exception {
 public:
  CallError(std::string call, long code, std::string text);
  [[nodiscard]] const char* what() const noexcept override { return verdict_.text.c_str(); }
  [[nodiscard]] const Verdict& verdict() const noexcept { return verdict_; }

 private:
  Verdict verdict_;
};

/// Thrown by a wait that ended before what it waited for; never leaves comm.
class Unfinished final : public std::exception {};

/// One operation, as messages name it.
struct Operation {
  const char* call = "";               ///< "ncclAllReduce"
  std::int64_t sequence = 0;           ///< number within the team: 1, 2, ...
  std::span<const int> world_ranks{};  ///< [size of the team]
  NcclLimits limits;

  [[nodiscard]] std::string text() const;  ///< "operation 7 of the team of world ranks 2-4"
};

/// The failure that all ranks of a team throw: that of the lowest rank that had one; without any,
/// who did not finish in time.
///
/// @param verdicts  [size of the team], not all of them well
[[nodiscard]] Verdict common_cause(std::span<const Verdict> verdicts, const Operation& operation);

/// When some ranks of the team (`silent`, of the team) did not answer at all.
[[nodiscard]] Verdict without_answer(std::span<const int> silent, const Verdict& mine,
                                     const Operation& operation);

}  // namespace apo::comm
