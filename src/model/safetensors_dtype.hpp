#pragma once

/// @file
/// Element types of safetensors files (spec llm.md, section 1.1).

#include <cstdint>
#include <optional>
#include <string_view>

namespace apo::model {

struct SafetensorsDtype {
  std::string_view name;
  std::uint64_t bits = 0;
  int order = 0;  ///< the writer puts larger ones first
};

[[nodiscard]] std::optional<SafetensorsDtype> find_dtype(std::string_view name);

}  // namespace apo::model
