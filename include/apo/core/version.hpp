#pragma once

/// @file
/// What was built.

#include <string_view>

namespace apo {

[[nodiscard]] std::string_view version() noexcept;       ///< "0.1.0"
[[nodiscard]] std::string_view git_revision() noexcept;  ///< at configure time, "-dirty" appended

}  // namespace apo
