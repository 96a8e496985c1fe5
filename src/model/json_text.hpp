#pragma once

/// @file
/// JSON files from outside, parsed with limits: depth, size, no duplicate keys.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace apo::model {

/// @throws Error(kData)  not one JSON object, nested deeper than 8, or with a key twice
[[nodiscard]] nlohmann::json parse_json_object(const std::string& text, std::string_view name);

/// A value as it is shown in messages, cut to 60 characters.
[[nodiscard]] std::string shown(const nlohmann::json& value);

}  // namespace apo::model
