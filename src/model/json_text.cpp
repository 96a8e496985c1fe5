#include "json_text.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::model {

namespace {
constexpr int kMaxDepth = 8;
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) {
    throw Error(Fault::kData, fmt::format("{}: no such file", path.string()));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw Error(Fault::kData, fmt::format("{}: cannot be opened for reading", path.string()));
  }
  const auto num_bytes = std::filesystem::file_size(path, code);
  if (code || num_bytes > max_bytes) {
    throw Error(Fault::kData, fmt::format("{}: {} bytes, expected at most {}", path.string(),
                                          num_bytes, max_bytes));
  }
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

nlohmann::json parse_json_object(const std::string& text, std::string_view name) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Event event, nlohmann::json& parsed) {
    switch (event) {
      case Event::object_start:
        keys.emplace_back();
        [[fallthrough]];
      case Event::array_start:
        if (depth >= kMaxDepth) {
          throw Error(Fault::kData,
                      fmt::format("{}: nested deeper than {} levels", name, kMaxDepth));
        }
        break;
      case Event::object_end:
        keys.pop_back();
        break;
      case Event::key: {
        const auto key = parsed.get<std::string>();
        if (!keys.back().insert(key).second) {
          throw Error(Fault::kData, fmt::format("{}: the key '{}' appears twice", name, key));
        }
        break;
      }
      default:
        break;
    }
    return true;
  };
  nlohmann::json value;
  try {
    value = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& e) {
    throw Error(Fault::kData, fmt::format("{}: not valid JSON: {}", name, e.what()));
  }
  if (!value.is_object()) {
    throw Error(Fault::kData,
                fmt::format("{}: expected a JSON object, found {}", name, value.type_name()));
  }
  return value;
}

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) {
    text.resize(57);
    text += "...";
  }
  return text;
}

}  // namespace apo::model
