#include "apo/text/token_lines.hpp"

#include <algorithm>
#include <charconv>
#include <istream>
#include <ostream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"

namespace apo::text {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(std::int64_t line_number, const std::string& line,
                         std::string_view expected) {
  throw Error(Fault::kData,
              fmt::format("line {}: found {}; expected {}", line_number,
                          line.size() > 80 ? line.substr(0, 77) + "..." : line, expected));
}

std::string text_of_line(const std::string& line, LineFormat format, std::int64_t line_number) {
  if (format != LineFormat::kJsonl) {
    return line;
  }
  const json value = json::parse(line, nullptr, false);
  if (!value.is_string()) {
    refuse(line_number, line, "a JSON string");
  }
  return value.get<std::string>();
}

std::vector<std::int32_t> ids_of_line(const std::string& line, std::int64_t line_number) {
  constexpr std::string_view kSeparators = " \t\r,[]";
  std::vector<std::int32_t> ids;
  for (std::size_t begin = line.find_first_not_of(kSeparators); begin != std::string::npos;) {
    const std::size_t end = std::min(line.find_first_of(kSeparators, begin), line.size());
    std::int32_t id = 0;
    const auto [stop, code] = std::from_chars(line.data() + begin, line.data() + end, id);
    if (code != std::errc() || stop != line.data() + end) {
      refuse(line_number, line.substr(begin, end - begin), "an id, a whole number");
    }
    ids.push_back(id);
    begin = line.find_first_not_of(kSeparators, end);
  }
  return ids;
}

}  // namespace

void encode_text(const Tokenizer& tokenizer, const LineOptions& options, std::string_view text,
                 std::ostream& out) {
  const auto ids = tokenizer.encode(text, options.control, options.add_special_tokens);
  if (options.format == LineFormat::kText) {
    out << fmt::format("{}\n", fmt::join(ids, " "));
  } else {
    out << fmt::format("[{}]\n", fmt::join(ids, ","));
  }
}

void encode_lines(const Tokenizer& tokenizer, const LineOptions& options, std::istream& in,
                  std::ostream& out) {
  std::int64_t line_number = 0;
  for (std::string line; std::getline(in, line);) {
    encode_text(tokenizer, options, text_of_line(line, options.format, ++line_number), out);
  }
}

void decode_lines(const Tokenizer& tokenizer, const LineOptions& options, std::istream& in,
                  std::ostream& out) {
  std::int64_t line_number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string text =
        tokenizer.decode(ids_of_line(line, ++line_number), options.skip_special_tokens);
    out << (options.format == LineFormat::kText ? text : json(text).dump()) << '\n';
  }
}

}  // namespace apo::text
