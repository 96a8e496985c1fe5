#pragma once

/// @file
/// DIR/reference/: what the jobs of a sweep agree on, and the one reference evaluation.

#include <filesystem>
#include <string>
#include <vector>

#include "apo/comm/world.hpp"
#include "apo/config/run_config.hpp"
#include "apo/methods/experiment.hpp"

namespace apo::cli {

/// What clusters and their results depend on: the text of the configuration without the budget and
/// without the keys on which no result depends.
[[nodiscard]] std::string identity_of(config::RunConfig config);

/// Rank 0.
/// @param identity  identity_of() the configuration
/// @throws Error(kConfig)  DIR holds a sweep of another configuration; lists the differences
void check_configuration(const std::filesystem::path& dir, const std::string& identity);

/// Losses at w_ref, [N][m]: measured by the first job that asks, read by the others, which wait
/// for it. Collective over the world.
/// @throws Error(kRequeue)  asked to stop while waiting
[[nodiscard]] std::vector<std::vector<double>> shared_reference_losses(
    comm::World& world, const std::filesystem::path& dir, const std::string& identity,
    const methods::ExperimentInputs& inputs, const methods::ExperimentOptions& options);

}  // namespace apo::cli
