#include "spec_text.hpp"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::data {

std::optional<double> parse_number(std::string_view text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || rest != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

Spec parse_spec(std::string_view text, std::string_view key) {
  Spec spec;
  const std::size_t colon = text.find(':');
  spec.name = std::string(text.substr(0, colon));
  std::size_t at = colon;
  while (at != std::string_view::npos) {
    const std::size_t next = text.find(':', at + 1);
    const std::string_view part = text.substr(at + 1, next - at - 1);
    const std::optional<double> number = parse_number(part);
    if (!number) {
      throw Error(Fault::kConfig,
                  fmt::format("{} = {}: expected a number, found '{}'", key, text, part));
    }
    spec.numbers.push_back(*number);
    at = next;
  }
  return spec;
}

int whole_number(double value, int high, std::string_view key, std::string_view what) {
  if (!(value >= 1.0 && value <= high) || value != std::floor(value)) {
    throw Error(Fault::kConfig, fmt::format("{}: expected {} as a whole number in [1, {}], found "
                                            "{}",
                                            key, what, high, value));
  }
  return static_cast<int>(value);
}

void check_concentration(double value, std::string_view key) {
  constexpr double kLow = 1e-3;
  constexpr double kHigh = 1e6;
  if (!(value >= kLow && value <= kHigh)) {
    throw Error(Fault::kConfig,
                fmt::format("{}: expected a Dirichlet concentration in [0.001, 1e6], found {}", key,
                            value));
  }
}

}  // namespace apo::data
