#pragma once

/// @file
/// Texts to ids and back, one line at a time: the batch mode of `apo tokenize`, also used by the
/// parity tests.

#include <iosfwd>
#include <string_view>

#include "apo/text/tokenizer.hpp"

namespace apo::text {

enum class LineFormat {
  kText,   ///< texts as they are, ids separated by spaces
  kJson,   ///< texts as they are, ids as a JSON array
  kJsonl,  ///< JSON strings and JSON arrays in and out, so that texts may hold line breaks
};

struct LineOptions {
  LineFormat format = LineFormat::kText;
  ControlTokens control = ControlTokens::kParse;
  bool add_special_tokens = false;
  bool skip_special_tokens = true;  ///< of decode_lines()
};

/// The ids of one text, which may hold line breaks, as one line of `out`.
void encode_text(const Tokenizer& tokenizer, const LineOptions& options, std::string_view text,
                 std::ostream& out);

/// One line of `in` = one text; its ids become one line of `out`.
/// @throws Error(kData)  a line of kJsonl is not a JSON string; names the line's number
void encode_lines(const Tokenizer& tokenizer, const LineOptions& options, std::istream& in,
                  std::ostream& out);

/// One line of `in` = ids, separated by spaces or commas or as a JSON array; their text becomes
/// one line of `out` (a JSON string with kJson and kJsonl).
/// @throws Error(kData)  something that is not an id; names the line's number
void decode_lines(const Tokenizer& tokenizer, const LineOptions& options, std::istream& in,
                  std::ostream& out);

}  // namespace apo::text
