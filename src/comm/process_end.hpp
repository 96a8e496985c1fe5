#pragma once

/// @file
/// Ends of a process that would otherwise be silent, look like success, or never come. Private to
/// comm.

#include <string>
#include <string_view>

namespace apo::comm {

/// Unbuffered, so that it is out before the launcher kills this process.
void write_to_stderr(std::string_view text) noexcept;

/// SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT first write "[rank r host] killed by SIGSEGV:
/// phase1 round 12 cluster 3 client 17", then do what they did before. Call after MPI_Init, which
/// installs handlers of its own.
void name_fatal_signals(int rank, const std::string& host);

/// Ends this process with `code` after that many seconds unless it has ended before: for calls that
/// may block on the way out. Uses SIGALRM.
void exit_later(unsigned seconds, int code) noexcept;

}  // namespace apo::comm
