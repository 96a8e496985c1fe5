#pragma once

/// @file
/// POSIX files whose every step is checked, and the atomic publication of a whole file
/// (spec operations.md, sections 1.2 to 1.4).

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include "apo/core/error.hpp"

namespace apo {

/// @throws BackendError  call, errno, its text and the path
[[noreturn]] void throw_errno(std::string_view call, const std::filesystem::path& path,
                              Where where = Where::here());

/// Sole owner of a file descriptor.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept;
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd();

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  void close(const std::filesystem::path& path);  ///< checked; idempotent

 private:
  int fd_ = -1;
};

/// open(2) with O_CLOEXEC. @throws BackendError
[[nodiscard]] UniqueFd open_file(const std::filesystem::path& path, int flags);
/// A new, empty file for writing; one that exists is emptied. @throws BackendError
[[nodiscard]] UniqueFd create_file(const std::filesystem::path& path);
void write_all(const UniqueFd& fd, std::string_view bytes, const std::filesystem::path& path);
/// @throws Error(kData)  absent, not a regular file, larger than max_bytes, or not readable
[[nodiscard]] std::string read_text_file(
    const std::filesystem::path& path,
    std::uintmax_t max_bytes = std::numeric_limits<std::uintmax_t>::max());

/// A name in the folder of `target` that starts with ".tmp-" and belongs to this process.
[[nodiscard]] std::filesystem::path temporary_name(const std::filesystem::path& target);

/// A temporary file that is removed unless it was published.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path target);
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile();

  [[nodiscard]] const std::filesystem::path& path() const { return temporary_; }
  /// fsync(file), rename, fsync(folder): the order that survives a power cut.
  void publish();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  bool published_ = false;
};

void publish_text_file(const std::filesystem::path& path, std::string_view text);
/// Removes what killed processes left: files that begin with ".tmp-".
void remove_temporaries(const std::filesystem::path& folder);

}  // namespace apo
