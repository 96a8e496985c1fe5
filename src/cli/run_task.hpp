#pragma once

/// @file
/// What `apo run` works on: a language model with preference data, or an analytic task.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apo/comm/device_map.hpp"
#include "apo/config/run_config.hpp"
#include "apo/core/table.hpp"
#include "apo/data/partition.hpp"
#include "apo/federation/trainer.hpp"
#include "apo/methods/evaluation.hpp"
#include "apo/methods/personaliser.hpp"
#include "apo/objective/objective_set.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {

class RunTask {
 public:
  virtual ~RunTask() = default;

  /// What does not fit in the inputs was found by the factory; this loads what takes time and
  /// memory. Called once, on every rank, before anything below but names() and partition().
  virtual void prepare() = 0;

  [[nodiscard]] virtual const std::vector<std::string>& objective_names() const = 0;  ///< [m]
  [[nodiscard]] virtual const data::Partition& partition() const = 0;
  [[nodiscard]] virtual objective::ObjectiveSet& objectives() = 0;
  [[nodiscard]] virtual methods::Evaluator& evaluator() = 0;
  /// What a new client does, where the method brings its own way; null: few-shot adaptation.
  [[nodiscard]] virtual methods::Personaliser* personaliser() = 0;

  /// Libraries, hash of the data, counts of what was dropped.
  virtual void describe(store::Document& document) const = 0;
  /// Leaves one cluster's final parameters where users look for them: adapters as PEFT folders,
  /// or arrays of the run file.
  /// @param parameters  [clusters][P of the scheme]
  virtual void leave_parameters(const std::filesystem::path& dir,
                                const std::vector<std::vector<float>>& parameters,
                                store::Document& document) const = 0;
};

/// @param device  where the model goes
[[nodiscard]] std::unique_ptr<RunTask> make_language_task(const config::RunConfig& config,
                                                          const comm::RankDevice& device);
[[nodiscard]] std::unique_ptr<RunTask> make_analytic_run_task(const config::RunConfig& config);

}  // namespace apo::cli
