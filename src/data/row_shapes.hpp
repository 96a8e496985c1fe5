#pragma once

/// @file
/// Which shape a row has (spec data-formats.md, "File shapes"), judged by its keys.

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace apo::data {

enum class RowShape {
  kNeutral,  ///< shapes 1, 3 and 4: prompt, chosen, rejected as text or message lists
  kHhRlhf,   ///< shape 2: chosen and rejected hold the whole dialogue as text
};

struct ShapeFinding {
  std::optional<RowShape> shape;  ///< a shape that is read
  std::string refused;            ///< name of a known shape that is not read; else empty
};

/// Both members empty: not a shape that is known.
[[nodiscard]] ShapeFinding find_shape(const nlohmann::json& row);

}  // namespace apo::data
