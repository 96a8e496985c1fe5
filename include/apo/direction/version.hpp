#pragma once

/// @file
/// The foreign library of this room, for the run file's provenance.

#include <string>

namespace apo::direction {

/// "GLPK 5.0", of the library that runs; "(headers 4.65)" behind it where they differ.
[[nodiscard]] std::string library_version();

}  // namespace apo::direction
