#include "atomic_file.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::model {

namespace {

[[noreturn]] void fail(std::string_view call, const std::filesystem::path& path) {
  const int code = errno;
  throw BackendError(std::string(call) + " " + path.string(), code, std::strerror(code));
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    fail("open", folder);
  }
  const int result = ::fsync(fd);
  const int code = errno;
  ::close(fd);
  // Some network file systems cannot sync a folder; the rename itself has happened.
  if (result != 0 && code != EINVAL && code != ENOTSUP) {
    errno = code;
    fail("fsync", folder);
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)) {
  static std::atomic<unsigned> next{0};
  const std::string name = "." + target_.filename().string() + ".tmp-" +
                           std::to_string(::getpid()) + "-" + std::to_string(next.fetch_add(1));
  temporary_ = folder_of(target_) / name;
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail("open", temporary_);
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = ::write(fd_, bytes.data() + written, bytes.size() - written);
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail("write", temporary_);
    }
    written += static_cast<std::size_t>(n);
  }
}

void AtomicFile::publish() {
  if (::fsync(fd_) != 0) {
    fail("fsync", temporary_);
  }
  if (::close(std::exchange(fd_, -1)) != 0) {
    fail("close", temporary_);
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail("rename", target_);
  }
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void write_text_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.publish();
}

}  // namespace apo::model
