#pragma once

/// @file
/// Plugs the store and the console into the round loop.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "time_limit.hpp"

#include "apo/comm/world.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/table.hpp"
#include "apo/federation/trainer.hpp"
#include "apo/store/document.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::cli {

/// Collects the metric history on rank 0, appends metrics.jsonl, prints progress, publishes
/// checkpoints and run.h5, and says when the job should stop. On other ranks it only sees signals
/// and takes part in the agreement about failures.
///
/// A disk that is full or read-only costs no computed round: lines of metrics.jsonl wait in memory,
/// a checkpoint that cannot be written is warned of and counted, and the next one is tried.
class RunRecorder final : public federation::RoundObserver {
 public:
  /// Collective: installs the stop signals on every rank (after NCCL, which may have taken them)
  /// and gathers the provenance.
  ///
  /// @param directory  null on ranks other than 0
  /// @param header     document with the root attributes and the population's tables
  /// @throws Error(kConfig)  checkpoint.max_walltime or checkpoint.stop_signals cannot be read
  RunRecorder(comm::World& world, store::RunDirectory* directory, store::Document header,
              int num_objectives, int total_rounds);

  /// Newest usable checkpoint, agreed on by all ranks; restores the metric history with it.
  [[nodiscard]] std::optional<federation::TrainingState> resume();

  /// Stop: this rank has seen a signal, or (rank 0) the time limit leaves no time for the slowest
  /// round so far with its checkpoint. Checkpoint: checkpoint.every_minutes have passed (rank 0).
  [[nodiscard]] federation::RoundRequest request() override;
  void on_round(const federation::RoundReport& report) override;
  void on_progress(int done, int total) override;
  /// @throws BackendError  the folder has been removed or renamed: nothing can be kept any more
  void on_checkpoint(const federation::TrainingState& state) override;

  /// Outside of the round loop, for what can be interrupted between two clients: this rank was
  /// asked to stop, or the time limit is here. The ranks have to agree on it before one of them
  /// leaves a collective.
  [[nodiscard]] bool stop_requested() const;

  /// Publishes run.h5 with the history so far and `more`. Rank 0 only.
  void publish(const std::function<void(store::Document&)>& more);

  /// status.json. Rank 0 only.
  ///
  /// @param state  "running", "stopped", "complete", or what a stage leaves
  /// @throws BackendError      "stopped", or the end of a stage, whose checkpoint could not be
  ///         written: the job must not look as if its rounds were safe
  /// @throws Error(kInternal)  "stopped" for the second time in a row without a new round: requeued
  ///         again, the job would go on like this for ever
  void write_status(const std::string& state, int code);

  /// "stopped(signal USR2) rounds=12/15", for the line that ends the log. Rank 0 only.
  [[nodiscard]] std::string stop_text() const;

 private:
  [[nodiscard]] store::Document history() const;
  [[nodiscard]] int starts_without_round(const std::string& state) const;
  void take_status_of_last_start();
  void flush_metrics();
  void put_status(const std::string& state, int code);

  comm::World& world_;
  store::RunDirectory* directory_;
  store::Document header_;
  std::vector<Table> steps_;   ///< by phase: [0] Phase I, [1] Phase II
  std::vector<Table> rounds_;  ///< by phase
  std::vector<Table> theory_;  ///< Phase I: rounds, clients, pairs
  int total_rounds_;
  int done_ = 0;           ///< rounds, of this start and those before
  int done_at_start_ = 0;  ///< rounds of the checkpoint that this start goes on from
  int failed_checkpoints_ = 0;
  std::string checkpoint_failure_;  ///< of the newest attempt; empty: it was written
  int earlier_starts_without_round_ = 0;
  std::vector<std::string> waiting_lines_;  ///< of metrics.jsonl
  bool warned_of_metrics_ = false;
  bool warned_of_status_ = false;
  std::vector<double> last_loss_;
  std::string start_utc_ = utc_now();
  std::string max_walltime_;    ///< as configured
  TimeLimit limit_;             ///< every rank knows it; only rank 0 knows of rounds
  Stopwatch watch_;             ///< this start
  Stopwatch round_;             ///< since the last round or checkpoint
  Stopwatch since_checkpoint_;  ///< written or tried
  double last_line_ = -1e9;     ///< seconds on watch_ of the last progress line
};

}  // namespace apo::cli
