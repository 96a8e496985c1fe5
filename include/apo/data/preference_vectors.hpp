#pragma once

/// @file
/// What each client prefers: read from a file or drawn (options: data.preferences).

#include <cstdint>
#include <string>
#include <vector>

namespace apo::data {

/// lambda of each client, [clients][m], strictly positive, sums to 1.
///
/// @param spec     FILE, dirichlet:ALPHA, dirichlet:A1:A2:..., corners:STRONG:WEAK, grid:K
/// @param clients  sorted names; draws are keyed by (seed, position)
/// @throws Error(kConfig)  a spec that cannot be read
/// @throws Error(kData)    a preference file that is malformed or lacks a client
[[nodiscard]] std::vector<std::vector<double>> make_preferences(
    const std::string& spec, const std::vector<std::string>& clients,
    const std::vector<std::string>& objectives, std::uint64_t seed);

/// Preferences from a CSV with header "client,<objective>,..." or from JSON lines
/// {"client": ..., "preference": [..] or {objective: value}}.
[[nodiscard]] std::vector<std::vector<double>> read_preference_file(
    const std::string& path, const std::vector<std::string>& clients,
    const std::vector<std::string>& objectives);

}  // namespace apo::data
