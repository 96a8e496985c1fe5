#include "apo/core/process_memory.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo {
namespace {

constexpr std::int64_t kKib = 1024;

/// "Name:   123 kB" lines of a file under /proc.
class KibLines {
 public:
  explicit KibLines(const char* path) : path_(path) {
    std::ifstream file(path);
    if (!file) {
      throw BackendError("open", 0, std::string(path) + " cannot be read");
    }
    text_.assign(std::istreambuf_iterator<char>(file), {});
  }

  /// Bytes. @throws BackendError  there is no such line
  [[nodiscard]] std::int64_t at(const std::string& name) const {
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(name + ":", 0) == 0) {
        return std::stoll(line.substr(name.size() + 1)) * kKib;
      }
    }
    throw BackendError("read", 0, std::string(path_) + ": no line '" + name + "'");
  }

 private:
  const char* path_;
  std::string text_;
};

/// The first number of a file; `none` where there is no such file or it says "max".
std::int64_t number_in(const std::string& path, std::int64_t none) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? value : none;
}

/// This process' group in cgroup version 2 ("0::/user.slice/..."); empty: none.
std::string control_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) {
      return line.substr(3);
    }
  }
  return {};
}

}  // namespace

ProcessMemory process_memory() {
  const KibLines status("/proc/self/status");
  return {status.at("RssAnon"), status.at("RssFile"), status.at("RssShmem"), status.at("VmHWM")};
}

bool reset_peak_memory() {
  const int fd = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  const bool done = ::write(fd, "5", 1) == 1;
  return ::close(fd) == 0 && done;
}

void release_freed_memory() { ::malloc_trim(0); }

NodeMemory node_memory() {
  const KibLines meminfo("/proc/meminfo");
  NodeMemory node{meminfo.at("MemTotal"), meminfo.at("MemAvailable")};
  std::int64_t limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", node.total);
  const std::string root = "/sys/fs/cgroup";
  // Every ancestor may limit.
  for (std::filesystem::path group = control_group(); group.has_relative_path();
       group = group.parent_path()) {
    limit = std::min(limit, number_in(root + group.string() + "/memory.max", node.total));
  }
  limit = std::min(limit, number_in(root + "/memory.max", node.total));
  node.total = std::min(node.total, limit);
  node.available = std::min(node.available, node.total);
  return node;
}

}  // namespace apo
