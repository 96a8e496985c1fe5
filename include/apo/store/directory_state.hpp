#pragma once

/// @file
/// What a run's folder holds, for readers that do not work in it. Nothing here changes a file, and
/// everything may be called while a job is running: only published files are opened.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace apo::store {

struct CheckpointFile {
  std::int64_t generation = 0;
  std::filesystem::path path;
};
/// checkpoints/checkpoint-<generation>.h5 below `dir`, oldest first; none without that folder.
[[nodiscard]] std::vector<CheckpointFile> list_checkpoints(const std::filesystem::path& dir);

/// What processes that were killed, or one that is writing now, have left: ".tmp-*".
[[nodiscard]] std::vector<std::filesystem::path> list_temporaries(const std::filesystem::path& dir);

struct LockState {
  bool held = false;
  std::string holder;  ///< "host a07 pid 4711 since 2026-11-30T17:02:11Z"; may be of a dead job
};
/// Tries the lock for a moment, shared. A job that starts in that moment waits for it.
[[nodiscard]] LockState lock_state(const std::filesystem::path& dir);

enum class ConfigurationState { kMissing, kIntact, kChanged };
/// kChanged: the text does not match the SHA-256 that the job wrote before it.
[[nodiscard]] ConfigurationState configuration_state(const std::filesystem::path& dir);

}  // namespace apo::store
