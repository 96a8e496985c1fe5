#pragma once

/// @file
/// The lock of a run's folder. Private to store.

#include <filesystem>

#include "apo/core/durable_file.hpp"

namespace apo::store {

/// flock on DIR/lock, with this host's name, process and time inside. The kernel releases it when
/// the process dies, however it dies.
///
/// Waits up to a second: a reader may be looking (lock_state), or the last owner may be dying.
/// @throws BackendError  another job holds it (named), or the file cannot be made
[[nodiscard]] UniqueFd take_lock(const std::filesystem::path& dir);

}  // namespace apo::store
