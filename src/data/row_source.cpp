#include "row_source.hpp"

#include <algorithm>
#include <set>

#include "json_text.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::data {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::size_t kNone = std::string_view::npos;

std::size_t skip_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kSpace, at), text.size());
}

/// One past a string that begins at `at`; kNone when the text ends inside it.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return kNone;
}

/// One past the value that begins at `at`, by brackets and quotes alone; kNone when it has no end.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  int depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t end = end_of_string(text, i);
      if (end == kNone) {
        return kNone;
      }
      i = end - 1;
      if (depth == 0) {
        return end;
      }
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth <= 1) {
        return depth == 0 ? i : i + 1;
      }
      --depth;
    } else if (depth == 0 && (c == ',' || kSpace.find(c) != kNone)) {
      return i;
    }
  }
  return depth == 0 ? text.size() : kNone;
}

class Splitter {
 public:
  Splitter(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  RawRows split() {
    const std::size_t start = skip_space(text_, 0);
    if (text_[start] == '[') {
      result_.container = Container::kJsonList;
      expect_blank(split_list(start, std::nullopt));
      return std::move(result_);
    }
    if (text_[start] != '{') {
      fail(start, "expected JSON, that is '[' or '{'");
    }
    const std::size_t end = end_of_value(text_, start);
    const bool whole = end != kNone && skip_space(text_, end) == text_.size();
    if (whole && is_client_object(start)) {
      result_.container = Container::kClientObject;
      split_client_object(start);
    } else if (whole) {
      add(start, end, 1, std::nullopt);
    } else {
      split_lines();
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view what) const {
    const TextPosition where = position_of(text_, at);
    std::string found = "the end of the file";
    if (at < text_.size()) {
      const auto byte = static_cast<unsigned char>(text_[at]);
      found = byte > 0x20 && byte < 0x7f ? fmt::format("'{}'", text_[at])
                                         : fmt::format("byte 0x{:02x}", byte);
    }
    throw Error(Fault::kData, fmt::format("{}: line {}, column {}: {}, found {}", file_, where.line,
                                          where.column, what, found));
  }

  void expect_blank(std::size_t at) const {
    const std::size_t rest = skip_space(text_, at);
    if (rest != text_.size()) {
      fail(rest, "expected nothing after the last bracket");
    }
  }

  void add(std::size_t begin, std::size_t end, std::int64_t row,
           std::optional<std::string> client) {
    while (counted_ < begin) {
      line_ += text_[counted_++] == '\n' ? 1 : 0;
    }
    result_.rows.push_back({text_.substr(begin, end - begin), row, line_, std::move(client)});
  }

  /// @param at  position of '['. @return one past its ']'
  std::size_t split_list(std::size_t at, const std::optional<std::string>& client) {
    at = skip_space(text_, at + 1);
    if (at < text_.size() && text_[at] == ']') {
      return at + 1;
    }
    while (true) {
      const std::size_t end = at < text_.size() ? end_of_value(text_, at) : kNone;
      if (end == kNone) {
        fail(text_.size(), fmt::format("the list ends inside row {}", result_.rows.size() + 1));
      }
      if (end == at) {
        fail(at, fmt::format("expected row {}", result_.rows.size() + 1));
      }
      add(at, end, static_cast<std::int64_t>(result_.rows.size()) + 1, client);
      at = skip_space(text_, end);
      if (at < text_.size() && text_[at] == ']') {
        return at + 1;
      }
      if (at >= text_.size() || text_[at] != ',') {
        fail(at, fmt::format("expected ',' or ']' after row {}", result_.rows.size()));
      }
      at = skip_space(text_, at + 1);
    }
  }

  struct Member {
    std::string key;
    std::size_t value = 0;  ///< where the value begins
  };

  /// Reads `"key" :` at `at`.
  [[nodiscard]] Member read_member(std::size_t at) const {
    const std::size_t end =
        at < text_.size() && text_[at] == '"' ? end_of_string(text_, at) : kNone;
    if (end == kNone) {
      fail(std::min(at, text_.size()), "expected a key in quotes");
    }
    Member member;
    try {
      member.key = parse_json(text_.substr(at, end - at)).get<std::string>();
    } catch (const JsonProblem& problem) {
      fail(at, problem.what());
    }
    const std::size_t colon = skip_space(text_, end);
    if (colon >= text_.size() || text_[colon] != ':') {
      fail(colon, fmt::format("expected ':' after key '{}'", member.key));
    }
    member.value = skip_space(text_, colon + 1);
    return member;
  }

  /// One object whose values are all lists is client -> rows, unless it is a single conversational
  /// row.
  [[nodiscard]] bool is_client_object(std::size_t start) const {
    std::set<std::string> keys;
    std::size_t at = skip_space(text_, start + 1);
    while (at < text_.size() && text_[at] == '"') {
      const Member member = read_member(at);
      if (member.value >= text_.size() || text_[member.value] != '[') {
        return false;
      }
      keys.insert(member.key);
      at = skip_space(text_, end_of_value(text_, member.value));
      if (at < text_.size() && text_[at] == ',') {
        at = skip_space(text_, at + 1);
      }
    }
    return !keys.empty() && !(keys.contains("chosen") && keys.contains("rejected"));
  }

  void split_client_object(std::size_t start) {
    std::set<std::string> clients;
    std::size_t at = skip_space(text_, start + 1);
    while (true) {
      const std::size_t key_at = at;
      const Member member = read_member(at);
      if (!clients.insert(member.key).second) {
        fail(key_at, fmt::format("client '{}' stands twice", member.key));
      }
      at = skip_space(text_, split_list(member.value, member.key));
      if (at < text_.size() && text_[at] == '}') {
        expect_blank(at + 1);
        return;
      }
      if (at >= text_.size() || text_[at] != ',') {
        fail(at, fmt::format("expected ',' or '}}' after client '{}'", member.key));
      }
      at = skip_space(text_, at + 1);
    }
  }

  /// The text between `at` and the line's end, without surrounding space: [begin, end).
  struct Line {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t next = 0;
  };
  [[nodiscard]] Line line_at(std::size_t at) const {
    Line line;
    const std::size_t newline = std::min(text_.find('\n', at), text_.size());
    line.next = newline + 1;
    line.begin = std::min(text_.find_first_not_of(" \t\r", at), newline);
    line.end = newline;
    while (line.end > line.begin && kSpace.find(text_[line.end - 1]) != kNone) {
      --line.end;
    }
    return line;
  }

  void split_lines() {
    result_.container = Container::kJsonLines;
    std::int64_t number = 0;
    int complete = 0;
    for (std::size_t at = 0; at < text_.size();) {
      const Line line = line_at(at);
      at = line.next;
      ++number;
      if (line.begin == line.end) {
        continue;
      }
      const std::string_view row = text_.substr(line.begin, line.end - line.begin);
      complete += row.front() == '{' && end_of_value(row, 0) == row.size() ? 1 : 0;
      result_.rows.push_back({row, number, number, std::nullopt});
      if (complete == 0 && result_.rows.size() == 2) {
        fail(skip_space(text_, 0),
             "neither JSON lines nor one JSON document: no complete value begins at");
      }
    }
  }

  std::string_view text_;
  const std::string& file_;
  RawRows result_;
  std::size_t counted_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace

TextPosition position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  TextPosition position;
  position.line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  position.column = static_cast<std::int64_t>(
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline);
  return position;
}

RawRows split_rows(std::string_view text, const std::string& file) {
  return Splitter(text, file).split();
}

}  // namespace apo::data
