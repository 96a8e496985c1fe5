#include "safetensors_dtype.hpp"

#include <array>
#include <utility>

namespace apo::model {

std::optional<SafetensorsDtype> find_dtype(std::string_view name) {
  using Row = std::pair<std::string_view, std::uint64_t>;
  static constexpr std::array<Row, 22> kRows = {{
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64},
  }};
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].first == name) {
      return SafetensorsDtype{kRows[i].first, kRows[i].second, static_cast<int>(i)};
    }
  }
  return std::nullopt;
}

}  // namespace apo::model
