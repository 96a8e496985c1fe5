#pragma once

/// @file
/// Error types shared by every room. The policy is one table in README.md, section "Errors".

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace apo {

/// Where an error was raised. Stands in for std::source_location, which clang 14 cannot parse
/// with libstdc++ 12.
struct Where {
  const char* file;
  int line;
  static constexpr Where here(const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// Who must act; each maps to one exit code of the program (exit_code()).
enum class Fault {
  kConfig,    ///< 64: command line or configuration
  kData,      ///< 65: data or model files
  kDevice,    ///< 69: no such device
  kInternal,  ///< 70: our fault
  kBackend,   ///< 74: cannot write, or MPI, NCCL, CUDA, HDF5 failed
  kRequeue,   ///< 75: stopped at a checkpoint, wants to be requeued
};

[[nodiscard]] int exit_code(Fault fault) noexcept;

/// Base of every exception this project throws. what() is the message for the user; for
/// kInternal it is preceded by "<file>:<line>: ".
class Error : public std::runtime_error {
 public:
  Error(Fault fault, std::string_view message, Where where = Where::here());

  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

/// A failed MPI, NCCL, CUDA, HDF5 or system call, with the library's own code and text.
class BackendError final : public Error {
 public:
  BackendError(std::string_view call, long code, std::string_view text,
               Where where = Where::here());

  [[nodiscard]] long code() const noexcept { return code_; }

 private:
  long code_;
};

/// Precondition of a public function. Checked in every build type.
inline void expects(bool condition, std::string_view message, Where where = Where::here()) {
  if (!condition) [[unlikely]] {
    throw Error(Fault::kInternal, message, where);
  }
}

/// Likewise, where the message would cost more than the check: it is made when it is needed.
template <class Message>
requires std::is_invocable_v<const Message&>
void expects(bool condition, const Message& message, Where where = Where::here()) {
  if (!condition) [[unlikely]] {
    throw Error(Fault::kInternal, message(), where);
  }
}

/// The known word that is nearest to `word` in edit distance, for "did you mean"; empty when
/// nothing is near (distance above half of the word's length).
template <class Range>
[[nodiscard]] std::string nearest_word(std::string_view word, const Range& known);

[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

template <class Range>
std::string nearest_word(std::string_view word, const Range& known) {
  std::string best;
  std::size_t best_distance = word.size() / 2 + 1;
  for (const auto& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace apo
