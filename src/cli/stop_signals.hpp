#pragma once

/// @file
/// Signals that ask a job to stop with a checkpoint (operations.md, sections 2.3 and 4.3), and the
/// one place of a process that knows whether it has been asked to.

#include <string>
#include <vector>

namespace apo::cli {

/// Catches `names` ("TERM", "INT", "USR1", "USR2", "HUP"). The handler only sets a flag: the first
/// signal asks to stop at the next safe place, the second one says on stderr that this is under
/// way, the third one ends the process at once by the signal's own default. Signals within half a
/// second of the one before count once: a launcher and a scheduler often both deliver the same one.
///
/// Call after MPI_Init, and again after the first use of NCCL, which has had handlers of its own;
/// the flag stays. Signals of an earlier call that are not in `names` get their default back.
/// @throws Error(kConfig)  an unknown name; names the key
void install_stop_signals(const std::vector<std::string>& names);

/// A reason that is no signal, such as a time limit; the first reason stays.
void request_stop(const std::string& reason);

/// This process was asked to stop. Of this rank alone: mpirun hands a signal to all ranks, but not
/// in the same instant, so let the ranks agree before one of them leaves a collective.
[[nodiscard]] bool stop_requested() noexcept;

/// "signal USR2", "time limit 00:10:00"; empty: not asked.
[[nodiscard]] std::string stop_reason();

}  // namespace apo::cli
