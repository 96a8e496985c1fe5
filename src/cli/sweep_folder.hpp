#pragma once

/// @file
/// DIR/clusters/<name>/: one distinct cluster of a sweep, on the disk that the jobs share. Used by
/// rank 0 only.
///
/// Its lock is that of a run's folder: whoever holds it trains the cluster; the kernel frees it
/// when that process dies. checkpoints/ holds the training's state and its rounds so far. At the
/// end parameters.h5 and then result.h5 are published, whole; result.h5 says that it is trained.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apo/federation/records.hpp"
#include "apo/federation/trainer.hpp"
#include "apo/methods/sweep_evaluation.hpp"
#include "apo/store/document.hpp"
#include "apo/store/options.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::cli {

/// What a trained cluster leaves, parameters aside. Cluster numbers in it are 0.
struct ClusterResult {
  std::vector<federation::RoundReport> reports;  ///< of both phases, in the order of the rounds
  std::map<std::pair<ClientId, int>, methods::PairResult> evaluation;  ///< (client, variant)
  int team_ranks = 1;  ///< that trained it, at the end

  void add(std::vector<methods::PairResult> pairs);

  /// All of `clients` are evaluated.
  [[nodiscard]] bool covers(const std::vector<ClientId>& clients) const;
};

/// State and rounds of a cluster that is in training.
struct ClusterCheckpoint {
  federation::TrainingState state;  ///< of this cluster alone
  std::string reports;              ///< packed by add_report()
};

/// Appends a report to a byte string; only read back by the same program.
void add_report(std::string& bytes, const federation::RoundReport& report);
[[nodiscard]] std::vector<federation::RoundReport> unpack_reports(const std::string& bytes);

/// Bytes as 64-bit words, which a document can hold.
void put_bytes(store::Document& document, const std::string& path, const std::string& bytes);
[[nodiscard]] std::string get_bytes(const store::Document& document, const std::string& path);

/// Opens and locks a folder as RunDirectory::open() does; null when another job holds it, without
/// waiting for it.
[[nodiscard]] std::unique_ptr<store::RunDirectory> try_open(
    const std::filesystem::path& dir, const std::string& configuration,
    const store::CheckpointOptions& options);

class ClusterFolder {
 public:
  /// @param configuration  what the result depends on, budgets aside
  ClusterFolder(std::filesystem::path dir, std::string configuration,
                store::CheckpointOptions options);

  [[nodiscard]] const std::filesystem::path& path() const { return dir_; }
  [[nodiscard]] bool try_lock();  ///< false: another job works on this cluster
  void unlock() { directory_.reset(); }

  /// Without the lock: a published result is whole. A damaged one is named and counts as none.
  [[nodiscard]] std::optional<ClusterResult> load_result() const;
  /// @return [variants][P of the scheme]
  /// @throws Error(kData)  damaged, or written by another version of the program
  [[nodiscard]] std::vector<std::vector<float>> load_parameters() const;

  // With the lock.
  [[nodiscard]] std::optional<ClusterCheckpoint> load_checkpoint();
  /// A checkpoint that cannot be written costs progress, not the sweep: it is told in a warning.
  void publish_checkpoint(const ClusterCheckpoint& checkpoint);
  /// Parameters, if there are any, then the result; checkpoints have done their work then.
  void publish_result(const ClusterResult& result, const std::string& reports,
                      const std::vector<std::vector<float>>& parameters);
  void write_status(const std::string& state, int round, int total_rounds);

 private:
  std::filesystem::path dir_;
  std::string configuration_;
  store::CheckpointOptions options_;
  std::unique_ptr<store::RunDirectory> directory_;
};

}  // namespace apo::cli
