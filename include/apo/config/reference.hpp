#pragma once

/// @file
/// The option table as text for readers: `apo run --help` and the README's reference.

#include <string>

namespace apo::config {

/// Every key with type, range, unit, default and help, one paragraph each, under its section.
[[nodiscard]] std::string options_text();

/// The same as one Markdown table per section. README.md holds this text; a test compares.
[[nodiscard]] std::string options_markdown();

}  // namespace apo::config
