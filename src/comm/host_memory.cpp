#include "host_memory.hpp"

#include <cerrno>
#include <random>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::comm {
namespace {

/// Null when it does not work.
void* map_shared(const std::string& name, int flags, std::size_t bytes) {
  const int file = ::shm_open(name.c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) {
    return nullptr;
  }
  void* memory = MAP_FAILED;
  // posix_fallocate: a full /dev/shm has to fail here, not as SIGBUS at the first write.
  if ((flags & O_CREAT) == 0 || ::posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0) {
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  ::close(file);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

HostMemory::HostMemory(ClusterCommunicator& host, std::size_t bytes) : bytes_(bytes) {
  std::string name;
  if (host.rank() == 0) {
    std::random_device random;
    name = fmt::format("/apo-{}-{:08x}{:08x}", ::getpid(), random(), random());
    data_ = map_shared(name, O_CREAT | O_EXCL, bytes);
  }
  host.broadcast(name, 0);
  if (host.rank() != 0) {
    data_ = map_shared(name, 0, bytes);
  }
  std::vector<std::int64_t> all_well{data_ != nullptr ? 1 : 0};
  host.all_reduce(std::span<std::int64_t>(all_well), Reduction::kMin);
  if (host.rank() == 0) {
    ::shm_unlink(name.c_str());
  }
  shared_ = all_well[0] == 1;
  if (shared_) {
    return;
  }
  if (data_ != nullptr) {
    ::munmap(data_, bytes_);
  }
  data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) {
    throw BackendError("mmap", errno, "no memory for the watchdog");
  }
}

HostMemory::~HostMemory() { ::munmap(data_, bytes_); }

}  // namespace apo::comm
