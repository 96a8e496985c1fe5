#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::model {

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> next{0};
    path_ = std::filesystem::temp_directory_path() /
            ("apo-model-" + std::to_string(::getpid()) + "-" + std::to_string(next.fetch_add(1)));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream in(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  std::filesystem::path path_;
};

/// The message of the apo::Error of `fault` that `action` throws; a marker text otherwise.
template <class Action>
std::string error_of(Fault fault, Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.fault() == fault ? e.what() : std::string("(wrong fault) ") + e.what();
  }
  return "(no error)";
}

}  // namespace apo::model
