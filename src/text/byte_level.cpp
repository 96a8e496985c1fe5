#include "byte_level.hpp"

#include <cstddef>

#include "utf8.hpp"

namespace apo::text {
namespace {

constexpr char32_t kAlphabetEnd = 0x144;  // 256 + 68 bytes that are not printable

bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    alphabet[byte] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return alphabet;
}

std::array<int, kAlphabetEnd> make_inverse() {
  std::array<int, kAlphabetEnd> inverse{};
  inverse.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) {
    inverse[byte_alphabet()[byte]] = static_cast<int>(byte);
  }
  return inverse;
}

}  // namespace

const std::array<char32_t, 256>& byte_alphabet() {
  static const std::array<char32_t, 256> alphabet = make_alphabet();
  return alphabet;
}

std::optional<std::string> bytes_of_entry(std::string_view entry) {
  static const std::array<int, kAlphabetEnd> inverse = make_inverse();
  std::string bytes;
  bytes.reserve(entry.size());
  for (std::size_t position = 0; position < entry.size();) {
    const Utf8Step step = next_code_point(entry, position);
    if (!step.well_formed || step.code_point >= kAlphabetEnd || inverse[step.code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(inverse[step.code_point]));
    position += step.num_bytes;
  }
  return bytes;
}

std::string entry_of_bytes(std::string_view bytes) {
  std::string entry;
  for (const char byte : bytes) {
    append_utf8(entry, byte_alphabet()[static_cast<unsigned char>(byte)]);
  }
  return entry;
}

}  // namespace apo::text
