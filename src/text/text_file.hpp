#pragma once

/// @file
/// Finds and reads the files of a checkpoint's tokenizer.

#include <filesystem>
#include <string>

namespace apo::text {

/// The bytes of a file, unpacked when its name ends in ".gz".
/// @throws Error(kData)  missing, unreadable, damaged, or larger than 512 MiB
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path);

/// tokenizer.json or tokenizer.json.gz in a folder; a path of a file as it is.
/// @throws Error(kData)  neither is there
[[nodiscard]] std::filesystem::path find_tokenizer_file(const std::filesystem::path& path);

}  // namespace apo::text
