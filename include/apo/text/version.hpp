#pragma once

/// @file
/// The foreign libraries of this room, for the run file's provenance.

#include <string>

namespace apo::text {

/// "ICU 72.1, Oniguruma 6.9.8", of the libraries that run.
[[nodiscard]] std::string library_version();

}  // namespace apo::text
