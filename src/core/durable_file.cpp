#include "apo/core/durable_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apo/core/log.hpp"

namespace apo {

namespace fs = std::filesystem;

void throw_errno(std::string_view call, const fs::path& path, Where where) {
  const int code = errno;
  throw BackendError(call, code, path.string() + ": " + std::strerror(code), where);
}

UniqueFd::UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    UniqueFd old(std::exchange(fd_, std::exchange(other.fd_, -1)));
  }
  return *this;
}
UniqueFd::~UniqueFd() {
  if (valid()) {
    ::close(fd_);
  }
}
void UniqueFd::close(const fs::path& path) {
  if (valid() && ::close(std::exchange(fd_, -1)) != 0) {
    throw_errno("close", path);
  }
}

UniqueFd open_file(const fs::path& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    throw_errno("open", path);
  }
  return fd;
}

UniqueFd create_file(const fs::path& path) { return open_file(path, O_WRONLY | O_CREAT | O_TRUNC); }

void write_all(const UniqueFd& fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      throw_errno("write", path);
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string read_text_file(const fs::path& path, std::uintmax_t max_bytes) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) {
    throw Error(Fault::kData, path.string() + ": no such file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw Error(Fault::kData, path.string() + ": cannot be opened for reading");
  }
  const std::uintmax_t num_bytes = fs::file_size(path, code);
  if (code || num_bytes > max_bytes) {
    throw Error(Fault::kData, fmt::format("{}: {} bytes, expected at most {}", path.string(),
                                          num_bytes, max_bytes));
  }
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) {
    throw Error(Fault::kData, path.string() + ": cannot be read");
  }
  return text;
}

fs::path temporary_name(const fs::path& target) {
  return target.parent_path() /
         (".tmp-" + std::to_string(::getpid()) + "-" + target.filename().string());
}

PendingFile::PendingFile(fs::path target)
    : target_(std::move(target)), temporary_(temporary_name(target_)) {}

PendingFile::~PendingFile() {
  if (published_) {
    return;
  }
  // HDF5 keeps a file open that it could not close on a full disk: cut it, or the room stays taken
  // until the process ends.
  const bool cut = ::truncate(temporary_.c_str(), 0) == 0;
  if ((!cut || ::unlink(temporary_.c_str()) != 0) && errno != ENOENT) {
    log::warn("{}: cannot be removed: {}", temporary_.string(), std::strerror(errno));
  }
}

void PendingFile::publish() {
  UniqueFd file = open_file(temporary_, O_RDONLY);
  if (::fsync(file.get()) != 0) {
    throw_errno("fsync", temporary_);
  }
  file.close(temporary_);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw_errno("rename", target_);
  }
  published_ = true;
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  UniqueFd directory = open_file(folder, O_RDONLY | O_DIRECTORY);
  // Some network file systems cannot sync a folder; the rename itself has happened.
  if (::fsync(directory.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    throw_errno("fsync", folder);
  }
}

void publish_text_file(const fs::path& path, std::string_view text) {
  PendingFile pending(path);
  UniqueFd fd = create_file(pending.path());
  write_all(fd, text, pending.path());
  fd.close(pending.path());
  pending.publish();
}

void remove_temporaries(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(".tmp-") && !entry.is_directory(ignored)) {
      log::info("removing {}, left by a process that was killed", entry.path().string());
      fs::remove(entry.path(), ignored);
    }
  }
}

}  // namespace apo
