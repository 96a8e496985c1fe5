#pragma once

/// @file
/// A file that appears whole or not at all: temporary name in the same folder, fsync, rename,
/// fsync of the folder (spec llm.md, section 1.2, "Writer").

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace apo::model {

class AtomicFile {
 public:
  /// @throws BackendError  the folder cannot be written
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();  ///< removes the temporary file unless publish() was called
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void publish();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

void write_text_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace apo::model
