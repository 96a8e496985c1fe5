#pragma once

/// @file
/// One parsed row -> one preference pair, or what is wrong with it.

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "row_shapes.hpp"
#include <nlohmann/json.hpp>

#include "apo/data/preference_data.hpp"

namespace apo::data {

/// A row that cannot be used.
class RowProblem : public std::runtime_error {
 public:
  RowProblem(std::string reason_text, std::string field_name, std::string found_text,
             std::string wanted_text)
      : std::runtime_error(reason_text),
        reason(std::move(reason_text)),
        field(std::move(field_name)),
        found(std::move(found_text)),
        wanted(std::move(wanted_text)) {}

  std::string reason;  ///< one of few, for counting
  std::string field;
  std::string found;
  std::string wanted;
};

/// Which forms prompt and responses may take; the values of data.format.
enum class TextForm { kAny, kStrings, kMessages };

/// Name of the objective a row stands under.
///
/// @param objectives  those in use; a row that names none belongs to the only one
/// @throws RowProblem  none named and several in use, or not a string
[[nodiscard]] std::string read_objective(const nlohmann::json& row,
                                         const std::vector<std::string>& objectives);

/// Everything of a pair but objective, file and row.
///
/// @throws RowProblem
[[nodiscard]] PreferencePair parse_row(const nlohmann::json& row, RowShape shape, TextForm form);

}  // namespace apo::data
