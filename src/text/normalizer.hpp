#pragma once

/// @file
/// Unicode normalisation form C as Hugging Face's tokenizers computes it.

#include <string>
#include <string_view>

namespace apo::text {

/// NFC of well-formed UTF-8 with the tables of Unicode 9.0: characters that are younger are left
/// alone. That is the version that the reference implementation (crate
/// unicode-normalization-alignments) is fixed at; with newer tables a combining mark of
/// Unicode 10 or later beside an older one would be reordered, and the ids would differ.
[[nodiscard]] std::string normalize_nfc(std::string_view text);

}  // namespace apo::text
