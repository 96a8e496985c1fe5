#include "nccl_fuse.hpp"

#include <chrono>
#include <utility>

#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::comm {

ExitFuse::ExitFuse(double grace, std::string message, Action expiry) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                       std::chrono::duration<double>(grace));
  thread_ = std::thread([this, end, message = std::move(message), expiry = std::move(expiry)] {
    std::unique_lock lock(mutex_);
    if (!disarmed_signal_.wait_until(lock, end, [this] { return disarmed_; })) {
      expiry(message);
    }
  });
}

ExitFuse::~ExitFuse() {
  {
    const std::lock_guard lock(mutex_);
    disarmed_ = true;
  }
  disarmed_signal_.notify_one();
  thread_.join();
}

void ExitFuse::end_process(const std::string& message) noexcept {
  // In pieces and without formatting: nothing here may throw or take a lock.
  const auto put = [](const char* data, std::size_t size) {
    while (size > 0) {
      const ssize_t n = ::write(STDERR_FILENO, data, size);
      if (n <= 0) {
        return;
      }
      data += n;
      size -= static_cast<std::size_t>(n);
    }
  };
  put(message.data(), message.size());
  put("\n", 1);
  ::_exit(exit_code(Fault::kBackend));
}

}  // namespace apo::comm
