#include "directory_lock.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"

namespace apo::store {
namespace {

constexpr int kAttempts = 11;
constexpr std::chrono::milliseconds kBetweenAttempts(100);

int try_lock(const UniqueFd& fd) {
  for (int attempt = 1;; ++attempt) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      return 0;
    }
    if ((errno != EWOULDBLOCK && errno != EINTR) || attempt == kAttempts) {
      return errno;
    }
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace

UniqueFd take_lock(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / "lock";
  UniqueFd fd = open_file(path, O_RDWR | O_CREAT);
  if (const int code = try_lock(fd); code != 0) {
    if (code == EWOULDBLOCK) {
      std::string holder = read_text_file(path);
      holder.erase(std::remove(holder.begin(), holder.end(), '\n'), holder.end());
      throw BackendError("flock", code,
                         fmt::format("{}: another job works in this folder ({})", path.string(),
                                     holder.empty() ? "it left no name" : holder));
    }
    if (code != ENOLCK && code != EOPNOTSUPP && code != ENOSYS) {
      errno = code;
      throw_errno("flock", path);
    }
    log::warn("{}: this file system has no locks; make sure that one job only works in {}",
              path.string(), dir.string());
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    host[0] = '?';
  }
  if (::ftruncate(fd.get(), 0) != 0) {
    throw_errno("ftruncate", path);
  }
  write_all(fd, fmt::format("host {} pid {} since {}\n", host.data(), ::getpid(), utc_now()), path);
  return fd;
}

}  // namespace apo::store
