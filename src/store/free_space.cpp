#include "free_space.hpp"

#include <cerrno>
#include <type_traits>

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::store {
namespace {

template <class Values>
std::uint64_t bytes_of(const Values& values) {
  using T = typename Values::value_type;
  if constexpr (std::is_same_v<T, std::string>) {
    std::uint64_t longest = 0;  // fixed length: every text takes the room of the longest
    for (const std::string& text : values) {
      longest = std::max<std::uint64_t>(longest, text.size());
    }
    return longest * values.size();
  } else {
    return values.size() * sizeof(T);
  }
}

std::string in_mib(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

}  // namespace

std::uint64_t least_bytes(const Document& document) {
  std::uint64_t sum = 0;
  for (const auto& [path, array] : document.arrays) {
    sum += std::visit([](const auto& values) { return bytes_of(values); }, array.values);
  }
  for (const auto& [group, attributes] : document.attributes) {
    for (const auto& [name, value] : attributes) {
      if (const auto* text = std::get_if<std::string>(&value)) {
        sum += text->size();
      }
    }
  }
  return sum;
}

std::optional<std::uint64_t> free_bytes(const std::filesystem::path& folder) {
  struct statvfs room {};
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &room) != 0 || room.f_blocks == 0) {
    return std::nullopt;
  }
  // The blocks that are kept back are root's to use.
  const std::uint64_t blocks = ::geteuid() == 0 ? room.f_bfree : room.f_bavail;
  return blocks * room.f_frsize;
}

void check_room(const std::filesystem::path& path, std::uint64_t needed) {
  const auto room = free_bytes(path.parent_path());
  if (room && *room < needed) {
    throw BackendError("writing " + path.string(), ENOSPC,
                       fmt::format("No space left on device: {} are needed, {} are free",
                                   in_mib(needed), in_mib(*room)));
  }
}

}  // namespace apo::store
