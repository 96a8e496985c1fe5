#pragma once

/// @file
/// The folder of one run: lock, checkpoints, live metrics, status (design.md, section 5).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apo/store/document.hpp"
#include "apo/store/options.hpp"

namespace apo::store {

/// One job per directory. Used by rank 0 only.
///
/// Layout: run.h5, metrics.jsonl, log.jsonl, status.json, lock, configuration.ini,
/// checkpoints/checkpoint-<generation>.h5, adapters/cluster-<n>/.
class RunDirectory {
 public:
  /// Creates or opens DIR, takes the lock, removes own stale temporary files.
  ///
  /// @param configuration  resolved configuration text; its SHA-256 identifies the run
  /// @throws Error(kConfig)  DIR holds a run of another configuration: the message lists the keys
  ///         that differ with both values. Keys on which no result depends ([checkpoint],
  ///         runtime.timeout) may change from start to start.
  /// @throws BackendError    not writable, or another job holds the lock (named: host and pid)
  static RunDirectory open(const std::filesystem::path& dir, const std::string& configuration,
                           const CheckpointOptions& options);
  RunDirectory(RunDirectory&&) noexcept;
  RunDirectory& operator=(RunDirectory&&) noexcept;
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  ~RunDirectory();

  [[nodiscard]] const std::filesystem::path& path() const;
  [[nodiscard]] const CheckpointOptions& options() const;
  /// False once the folder that was opened has been removed or renamed, or another one has its
  /// name: nothing can be kept any more.
  [[nodiscard]] bool exists() const;

  /// Publishes the next generation and prunes to the last K that are known to be whole: written, or
  /// read, by this start. Each verify_every-th is read back before it gets its name. Warns when the
  /// next one will not fit.
  void publish_checkpoint(const Document& state);
  /// Newest checkpoint that reads, verifies and is accepted; others are named in a warning and left
  /// alone.
  ///
  /// @param accept  takes what it needs from the document; an exception from it says that the file,
  ///                whole as it is, is no checkpoint of this run
  [[nodiscard]] std::optional<Document> load_checkpoint(
      const std::function<void(const Document&)>& accept = {});
  [[nodiscard]] std::int64_t generation() const;  ///< newest published or loaded; 0: none

  void publish_run_file(const Document& run);  ///< run.h5
  /// status.json says complete, and run.h5 is whole. Warns where only the first is true: the
  /// results can be made again from the newest checkpoint.
  [[nodiscard]] bool finished() const;
  [[nodiscard]] std::string status() const;  ///< status.json; empty without a readable one

  /// Appends one line to metrics.jsonl with a single write().
  void append_metrics(std::string_view json_line);
  /// Size of metrics.jsonl, to be kept in the checkpoint.
  [[nodiscard]] std::int64_t metrics_size() const;
  /// Drops what a later, abandoned future wrote; also a torn last line.
  void truncate_metrics(std::int64_t size);

  /// status.json, atomically. @param json  one object
  void write_status(std::string_view json);

 private:
  struct Impl;
  explicit RunDirectory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace apo::store
