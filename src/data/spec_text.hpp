#pragma once

/// @file
/// Option values of the form NAME:NUMBER:NUMBER.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace apo::data {

/// A finite number that fills the whole text.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

struct Spec {
  std::string name;             ///< before the first ':'
  std::vector<double> numbers;  ///< after it
};

/// @param key  of the configuration, for errors
/// @throws Error(kConfig)  a part after the name is not a number
[[nodiscard]] Spec parse_spec(std::string_view text, std::string_view key);

/// @throws Error(kConfig)  unless `value` is a whole number in [1, high]
[[nodiscard]] int whole_number(double value, int high, std::string_view key, std::string_view what);

/// @throws Error(kConfig)  unless `value` is in [0.001, 1e6]; below, draws underflow
void check_concentration(double value, std::string_view key);

}  // namespace apo::data
