#pragma once

/// @file
/// Files that live as long as a test.

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::data::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "apo-data-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (path_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::filesystem::path path_;
};

/// Message of the apo::Error that `call` throws, with its fault checked.
template <class Call>
std::string error_of(Fault fault, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

using Counts = std::map<std::string, std::int64_t>;

/// Folder of the real data beside the source tree; empty when it is not there.
inline std::string shared_data() {
  const std::string path = APO_SOURCE_DIR "/../shared/data/";
  return std::filesystem::exists(path + "open") ? path : "";
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

}  // namespace apo::data::test
