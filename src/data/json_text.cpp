#include "json_text.hpp"

#include <set>
#include <vector>

#include <fmt/format.h>

namespace apo::data {
namespace {

using nlohmann::json;

std::string reason_of(std::string_view message) {
  if (message.find("surrogate") != std::string_view::npos) {
    return "lone surrogate";
  }
  if (message.find("UTF-8") != std::string_view::npos) {
    return "invalid UTF-8";
  }
  return "malformed JSON";
}

/// nlohmann's text without its own prefix and position, which is relative to the row.
std::string detail_of(std::string_view message) {
  const std::size_t column = message.find("column ");
  const std::size_t colon =
      column == std::string_view::npos ? std::string_view::npos : message.find(": ", column);
  if (colon != std::string_view::npos) {
    message.remove_prefix(colon + 2);
  }
  constexpr std::size_t kLongest = 200;  // "last read" quotes the whole string so far
  std::string detail;
  for (const char c : message.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    detail += byte < 0x20 || byte > 0x7e ? '?' : c;
  }
  return message.size() > kLongest ? detail + "..." : detail;
}

}  // namespace

json parse_json(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const json::parser_callback_t watch = [&](int depth, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (depth >= kMaxJsonDepth) {
          throw JsonProblem("nested too deeply",
                            fmt::format("nested more than {} levels deep", kMaxJsonDepth), 0);
        }
        if (event == json::parse_event_t::object_start) {
          keys.emplace_back();
        }
        break;
      case json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case json::parse_event_t::key:
        if (!keys.back().insert(parsed.get<std::string>()).second) {
          throw JsonProblem("repeated key",
                            fmt::format("key '{}' stands twice", parsed.get<std::string>()), 0);
        }
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::parse_error& error) {
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    throw JsonProblem(reason_of(error.what()), detail_of(error.what()), offset);
  } catch (const json::exception& error) {
    throw JsonProblem("malformed JSON", detail_of(error.what()), 0);
  }
}

std::string describe(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      if (text.empty()) {
        return "an empty string";
      }
      // Escaped, because the text may hold control characters; cut between characters.
      std::string shown = json(text).dump(-1, ' ', true, json::error_handler_t::replace);
      constexpr std::size_t kLongest = 60;
      return shown.size() > kLongest ? "the string " + shown.substr(0, kLongest) + "...\""
                                     : "the string " + shown;
    }
    case json::value_t::array:
      return fmt::format("a list of {}", value.size());
    case json::value_t::object: {
      std::string names;
      for (const auto& item : value.items()) {
        names += (names.empty() ? "" : ", ") + item.key();
      }
      return value.empty() ? "an empty object" : "an object with " + names;
    }
    default:
      return "the number " + value.dump();
  }
}

}  // namespace apo::data
