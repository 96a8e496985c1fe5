#pragma once

/// @file
/// Numbers as byte strings, on their way to another rank of the same program.

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace apo {

/// Native bytes of `values`, one after the other.
template <class Number>
[[nodiscard]] std::string to_bytes(std::span<const Number> values) {
  static_assert(std::is_arithmetic_v<Number>);
  // Not memcpy: an empty span may point to nothing.
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

/// What to_bytes() was given; a rest of less than a number is dropped.
template <class Number>
[[nodiscard]] std::vector<Number> from_bytes(std::string_view bytes) {
  static_assert(std::is_arithmetic_v<Number>);
  std::vector<Number> values(bytes.size() / sizeof(Number));
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Number));
  }
  return values;
}

}  // namespace apo
