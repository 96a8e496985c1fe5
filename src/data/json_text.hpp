#pragma once

/// @file
/// One JSON value from text that nobody vouches for.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace apo::data {

inline constexpr int kMaxJsonDepth = 64;

/// Text that is not JSON, or JSON that is refused.
class JsonProblem : public std::runtime_error {
 public:
  JsonProblem(std::string reason_text, const std::string& detail, std::size_t byte)
      : std::runtime_error(detail), reason(std::move(reason_text)), offset(byte) {}

  std::string reason;  ///< "malformed JSON", "lone surrogate", "invalid UTF-8", ...
  std::size_t offset;  ///< 0-based byte in the text
};

/// @throws JsonProblem  syntax, lone surrogates, ill-formed UTF-8, nesting beyond kMaxJsonDepth, or
///         a key that stands twice in one object
[[nodiscard]] nlohmann::json parse_json(std::string_view text);

/// "true", "the number 3", "an empty string", "the string 'abc...'", "a list of 3", ...
[[nodiscard]] std::string describe(const nlohmann::json& value);

}  // namespace apo::data
