#pragma once

/// @file
/// The rows of a container, as text: JSON lines, a JSON list, or one JSON object client -> rows.
/// Rows are cut out without being parsed, so that one bad row does not cost the others.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace apo::data {

enum class Container { kJsonLines, kJsonList, kClientObject };

struct RawRow {
  std::string_view text;
  std::int64_t row = 0;               ///< 1-based line (JSON lines) or position
  std::int64_t line = 0;              ///< 1-based line where the row begins
  std::optional<std::string> client;  ///< kClientObject: the key
};

struct RawRows {
  Container container = Container::kJsonLines;
  std::vector<RawRow> rows;
};

/// @param text  must outlive the rows
/// @throws Error(kData)  no container that is known, or a broken one; names file, line and column
[[nodiscard]] RawRows split_rows(std::string_view text, const std::string& file);

/// 1-based line and column (in bytes) of a position.
struct TextPosition {
  std::int64_t line = 1;
  std::int64_t column = 1;
};
[[nodiscard]] TextPosition position_of(std::string_view text, std::size_t offset);

}  // namespace apo::data
