#pragma once

/// @file
/// The alphabet of byte-level vocabularies: each byte as one printable code point
/// (spec llm.md, section 5.2, step 4).

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace apo::text {

/// The code point of a byte: itself where it is printable, else U+0100 and up in order.
[[nodiscard]] const std::array<char32_t, 256>& byte_alphabet();

/// The bytes that a vocabulary entry stands for; nothing when it holds a character outside of the
/// alphabet (such an entry no text can produce).
[[nodiscard]] std::optional<std::string> bytes_of_entry(std::string_view entry);

/// The entry that spells `bytes`.
[[nodiscard]] std::string entry_of_bytes(std::string_view bytes);

}  // namespace apo::text
