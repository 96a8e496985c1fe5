#pragma once

/// @file
/// DIR/adapted.h5: the test clients' personal adapters, between `apo adapt` and `apo evaluate`.

#include <filesystem>

#include "apo/methods/experiment.hpp"

namespace apo::cli {

/// Published atomically. @throws BackendError  it cannot be written
void write_adapted(const std::filesystem::path& file, const methods::AdaptedClients& adapted);

/// @param num_objectives  m
/// @throws Error(kData)  damaged or absent
[[nodiscard]] methods::AdaptedClients read_adapted(const std::filesystem::path& file);

}  // namespace apo::cli
