#include "json_text.hpp"

#include <set>
#include <vector>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::model {

namespace {
constexpr int kMaxDepth = 8;
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
