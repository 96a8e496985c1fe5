#pragma once

/// @file
/// The foreign library of this room, for the run file's provenance.

#include <string>

namespace apo::metrics {

/// "pagmo 2.18.0".
[[nodiscard]] std::string library_version();

}  // namespace apo::metrics
