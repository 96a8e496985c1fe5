#pragma once

/// @file
/// A folder of its own for a test of one process.

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>  // mkdtemp

namespace apo::test {

/// Fresh folder, removed at the end of its scope.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "apo-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      ADD_FAILURE() << "cannot make a folder in the temporary directory";
    }
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace apo::test
