#include "utf8.hpp"

namespace apo::text {

Utf8Step next_code_point(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) {
    return position + i < text.size() ? static_cast<unsigned char>(text[position + i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) {
    return {first, 1, true};
  }
  std::size_t length = 0;
  unsigned low = 0x80;  // range of the second byte
  unsigned high = 0xBF;
  char32_t value = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    value = first & 0x1F;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    value = first & 0x0F;
    low = first == 0xE0 ? 0xA0 : low;
    high = first == 0xED ? 0x9F : high;  // no surrogates
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    value = first & 0x07;
    low = first == 0xF0 ? 0x90 : low;
    high = first == 0xF4 ? 0x8F : high;
  } else {
    return {0, 1, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned next = byte(i);
    if (next < low || next > high) {
      return {0, i, false};
    }
    value = (value << 6) | (next & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {value, length, true};
}

char32_t code_point_before(std::string_view text, std::size_t position) {
  std::size_t start = position - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
    --start;
  }
  return next_code_point(text, start).code_point;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_well_formed(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Step step = next_code_point(text, position);
    if (!step.well_formed) {
      return false;
    }
    position += step.num_bytes;
  }
  return true;
}

std::string replace_ill_formed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Step step = next_code_point(text, position);
    if (step.well_formed) {
      out.append(text.substr(position, step.num_bytes));
    } else {
      append_utf8(out, 0xFFFD);
    }
    position += step.num_bytes;
  }
  return out;
}

}  // namespace apo::text
