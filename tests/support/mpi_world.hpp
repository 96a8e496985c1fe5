#pragma once

/// @file
/// For tests that run under mpiexec (apo_add_test with RANKS): the World of the test main.

#include <filesystem>
#include <string>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

namespace apo::test {

[[nodiscard]] comm::World& world();

/// A fresh folder, the same on all ranks; collective. Removed when the test program ends.
[[nodiscard]] std::filesystem::path shared_scratch();

}  // namespace apo::test
