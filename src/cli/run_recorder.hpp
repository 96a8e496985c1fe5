#pragma once

/// @file
/// Plugs the store and the console into the round loop.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apo/comm/world.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/table.hpp"
#include "apo/federation/trainer.hpp"
#include "apo/store/document.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::cli {

/// Collects the metric history on rank 0, appends metrics.jsonl, prints progress, publishes
/// checkpoints and run.h5. On other ranks it only takes part in the agreement about failures.
class RunRecorder final : public federation::RoundObserver {
 public:
  /// @param directory  null on ranks other than 0
  /// @param header     document with the root attributes and the population's tables
  RunRecorder(comm::World& world, store::RunDirectory* directory, store::Document header,
              int num_objectives, int total_rounds);

  /// Newest usable checkpoint, agreed on by all ranks; restores the metric history with it.
  [[nodiscard]] std::optional<federation::TrainingState> resume();

  void on_round(const federation::RoundReport& report) override;
  void on_progress(int done, int total) override;
  void on_checkpoint(const federation::TrainingState& state) override;

  /// Publishes run.h5 with the history so far and `more`. Rank 0 only.
  void publish(const std::function<void(store::Document&)>& more);
  void write_status(const std::string& state, int code);  ///< rank 0 only

 private:
  [[nodiscard]] store::Document history() const;

  comm::World& world_;
  store::RunDirectory* directory_;
  store::Document header_;
  std::vector<Table> steps_;   ///< by phase: [0] Phase I, [1] Phase II
  std::vector<Table> rounds_;  ///< by phase
  std::vector<Table> theory_;  ///< Phase I: rounds, clients, pairs
  int total_rounds_;
  int done_ = 0;
  int done_at_start_ = 0;
  int failed_checkpoints_ = 0;
  std::vector<double> last_loss_;
  Stopwatch watch_;
  double last_line_ = -1e9;  ///< seconds on watch_ of the last progress line
};

}  // namespace apo::cli
