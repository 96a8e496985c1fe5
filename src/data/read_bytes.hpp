#pragma once

/// @file
/// Bytes of a text file: plain or gzip, with or without a byte-order mark.

#include <string>

namespace apo::data {

struct FileText {
  std::string raw;   ///< as stored
  std::string text;  ///< unpacked, without byte-order mark
};

/// @throws Error(kData)  not readable, empty, damaged gzip, a Git-LFS pointer, or UTF-16
[[nodiscard]] FileText read_text_file(const std::string& path);

}  // namespace apo::data
