#pragma once

/// @file
/// UTF-8 in and out of byte strings.

#include <cstddef>
#include <string>
#include <string_view>

namespace apo::text {

/// One step of a reader: a code point, or an ill-formed prefix.
struct Utf8Step {
  char32_t code_point = 0;  ///< valid when well_formed
  std::size_t num_bytes = 0;
  bool well_formed = false;
};

/// Reads at `position` (< text.size()). An ill-formed step covers the maximal ill-formed prefix
/// (Unicode 15, section 3.9, table 3-8), at least one byte.
[[nodiscard]] Utf8Step next_code_point(std::string_view text, std::size_t position);

/// The code point that ends at `position` (> 0) in well-formed text.
[[nodiscard]] char32_t code_point_before(std::string_view text, std::size_t position);

void append_utf8(std::string& out, char32_t code_point);

[[nodiscard]] bool is_well_formed(std::string_view text);

/// `text` with one U+FFFD for each maximal ill-formed prefix (spec llm.md, section 5.4).
[[nodiscard]] std::string replace_ill_formed(std::string_view text);

}  // namespace apo::text
