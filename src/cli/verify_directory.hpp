#pragma once

/// @file
/// What a run's folder holds and where a new start would go on. Changes nothing; works while a job
/// is running.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace apo::cli {

struct VerifiedFile {
  std::filesystem::path path;
  std::uint64_t num_bytes = 0;
  std::string damage;  ///< empty: every hash matches
};

struct VerifiedCheckpoint : VerifiedFile {
  std::int64_t generation = 0;
  std::int64_t rounds = -1;        ///< over both phases; -1: damaged
  std::int64_t total_rounds = -1;  ///< of the run
  std::int64_t rows = -1;          ///< rounds of clusters: lines of metrics.jsonl up to here
  std::int64_t metrics_size = -1;  ///< bytes of them
};

struct VerifiedMetrics {
  bool exists = false;
  std::int64_t num_bytes = 0;
  std::int64_t lines = 0;
  std::int64_t torn_bytes = 0;  ///< behind the last newline
};

struct DirectoryReport {
  std::filesystem::path dir;
  /// complete | running | stopped | interrupted (killed) | failed | not started, or what a stage
  /// has left
  std::string state;
  std::int64_t status_round = -1;  ///< of status.json
  bool lock_held = false;
  std::string lock_holder;
  std::vector<VerifiedCheckpoint> checkpoints;  ///< oldest first
  std::optional<VerifiedFile> run_file;         ///< run.h5
  VerifiedMetrics metrics;
  std::vector<std::filesystem::path> temporaries;
  int resume = -1;  ///< position in `checkpoints` of the newest usable one; -1: from the beginning
  std::vector<std::string> problems;  ///< data that are damaged or missing: exit code 65
  std::vector<std::string> notes;     ///< what a new start puts right by itself

  [[nodiscard]] bool complete() const { return state == "complete"; }
  /// A new start has nothing to do: the run is complete, and its results are whole.
  [[nodiscard]] bool is_done() const { return complete() && run_file && run_file->damage.empty(); }
};

/// @throws Error(kData)  not the folder of a run: no configuration.ini
[[nodiscard]] DirectoryReport verify_directory(const std::filesystem::path& dir);

[[nodiscard]] std::string verify_text(const DirectoryReport& report);
[[nodiscard]] std::string verify_json(const DirectoryReport& report);  ///< one object

}  // namespace apo::cli
