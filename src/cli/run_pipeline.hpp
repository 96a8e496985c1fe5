#pragma once

/// @file
/// The pieces of `apo run`, shared by the commands that train: from a configuration to the run
/// file.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "run_task.hpp"

#include "apo/comm/device_map.hpp"
#include "apo/comm/world.hpp"
#include "apo/config/run_config.hpp"
#include "apo/federation/placement.hpp"
#include "apo/methods/experiment.hpp"
#include "apo/methods/population.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {

/// The task of a configuration; inputs are read and checked, nothing heavy is loaded.
[[nodiscard]] std::unique_ptr<RunTask> make_task(const config::RunConfig& config,
                                                 const comm::RankDevice& device);

/// resolved() options of the experiment.
[[nodiscard]] methods::ExperimentOptions experiment_options(const config::RunConfig& config);

/// Root attributes of the run file.
/// @param hosts   of every rank, by rank
/// @param method  methods::method_label()
[[nodiscard]] store::Document run_header(const config::RunConfig& config, const comm::World& world,
                                         const std::vector<std::string>& hosts,
                                         const std::string& method,
                                         const std::vector<std::string>& objective_names);

/// /clients, /clusters, /dendrogram
void add_population(store::Document& document, const methods::Population& population,
                    const data::Partition& partition, const federation::Placement& placement,
                    bool per_cluster);
void log_population(const methods::Population& population,
                    const std::vector<std::string>& objectives);

/// What comes after training: parameters, adaptation, evaluation, fronts.
/// @param dir         the run's folder: adapters go there
/// @param parameters  final parameters of the last start round, [clusters][P of the scheme]; empty
///                    for methods that train nothing
void add_results(store::Document& document, const RunTask& task, const std::filesystem::path& dir,
                 const std::vector<std::vector<float>>& parameters,
                 const methods::ExperimentResult& result);

/// Largest resident memory so far of each rank's process, bytes, by rank. Collective.
[[nodiscard]] std::vector<double> gather_peak_memory(comm::World& world);

/// /performance. @param parts       wall seconds by part of the run
///               @param peak_bytes  gather_peak_memory()
void add_performance(store::Document& document,
                     const std::vector<std::pair<std::string, double>>& parts,
                     std::span<const double> peak_bytes);

}  // namespace apo::cli
