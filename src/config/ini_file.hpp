#pragma once

/// @file
/// Reads an INI file through Boost.Program_options, which tells neither line numbers nor more than
/// its first complaint; both are added here.

#include <filesystem>
#include <string>
#include <vector>

namespace apo::config {

struct IniEntry {
  std::string key;  ///< section.name
  std::string value;
  int line = 0;  ///< from 1
};

struct IniFile {
  std::vector<IniEntry> entries;      ///< in file order, duplicates included
  std::vector<std::string> problems;  ///< "FILE:7: ..." for lines that are no INI
};

/// @throws Error(kConfig)  the file cannot be opened
[[nodiscard]] IniFile read_ini(const std::filesystem::path& file);

}  // namespace apo::config
