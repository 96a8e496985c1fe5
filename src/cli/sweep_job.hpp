#pragma once

/// @file
/// One job of a sweep: takes clusters, trains them, assembles budgets, beside other jobs.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run_task.hpp"
#include "sweep_assembly.hpp"
#include "sweep_folder.hpp"
#include "sweep_training.hpp"

#include "apo/comm/world.hpp"
#include "apo/config/run_config.hpp"
#include "apo/core/clock.hpp"
#include "apo/methods/experiment.hpp"

namespace apo::cli {

/// Locked folders cost two open files each.
inline constexpr int kMaxClaims = 200;

struct SweepCommand {
  std::string out;
  std::vector<int> budgets;
  int claim = kMaxClaims;  ///< clusters at a time
  bool wait = true;        ///< for clusters and budgets in other jobs' hands
};

/// Every member is collective over the world.
class SweepJob {
 public:
  /// @param config  one that check_sweep() accepts
  SweepJob(comm::World& world, const config::RunConfig& config, SweepCommand command);

  /// @return the process' exit code: 0, or on rank 0 that of kRequeue while something is left to do
  int operator()();

 private:
  [[nodiscard]] std::filesystem::path folder_of(const SweepBudget& budget) const;
  [[nodiscard]] std::size_t num_open_budgets() const;
  [[nodiscard]] std::string budget_list() const;
  [[nodiscard]] bool agreed(bool mine);
  void open();
  void share_complete();
  void prepare();
  void collect_clusters();

  /// Locks clusters that nobody has finished or works on.
  [[nodiscard]] std::vector<Claim> claim();
  void share(std::vector<Claim>& claims);
  /// Assembles every budget whose clusters are all there and that nobody else works on.
  void assemble_budgets();
  int requeue(const std::string& why);
  int finish();
  [[nodiscard]] std::string others() const;

  // Of rank 0:
  /// Null: complete, or in other hands.
  [[nodiscard]] std::unique_ptr<store::RunDirectory> try_open_budget(SweepBudget& budget) const;
  /// Whether the cluster has its result, which is then kept.
  bool look_for_result(std::size_t cluster);
  [[nodiscard]] Claim claim_of(std::size_t cluster);  ///< with its lock
  /// Empty while a cluster is missing.
  [[nodiscard]] std::vector<ClusterResult*> results_of(const SweepBudget& budget);

  comm::World& world_;
  comm::ClusterCommunicator& all_;
  config::RunConfig config_;
  SweepCommand command_;
  std::filesystem::path out_;
  std::string identity_;
  methods::ExperimentOptions options_;
  Stopwatch watch_;
  double seconds_population_ = 0.0;
  comm::RankDevice device_;
  std::unique_ptr<RunTask> task_;
  std::unique_ptr<methods::ExperimentInputs> inputs_;
  std::vector<std::string> hosts_;
  std::vector<SweepBudget> budgets_;
  std::vector<SweepCluster> clusters_;
  std::vector<ClusterFolder> folders_;                 ///< rank 0
  std::vector<std::optional<ClusterResult>> results_;  ///< rank 0
  std::unique_ptr<SweepTraining> training_;
  int num_elsewhere_ = 0;  ///< rank 0: clusters in other hands at the last look
};

}  // namespace apo::cli
