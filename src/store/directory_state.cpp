#include "apo/store/directory_state.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "configuration_text.hpp"
#include <fcntl.h>
#include <sys/file.h>

#include "apo/core/durable_file.hpp"

namespace apo::store {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".h5";

/// Generation of a checkpoint's file name; empty for other files.
std::optional<std::int64_t> generation_of(const std::string& name) {
  if (name.size() <= kPrefix.size() + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size() - kSuffix.size();
  std::int64_t generation = 0;
  const auto [stop, code] = std::from_chars(begin, end, generation);
  if (code != std::errc{} || stop != end || generation <= 0) {
    return std::nullopt;
  }
  return generation;
}

}  // namespace

std::vector<CheckpointFile> list_checkpoints(const fs::path& dir) {
  std::vector<CheckpointFile> found;
  const fs::path folder = dir / "checkpoints";
  if (!fs::is_directory(folder)) {
    return found;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (const auto generation = generation_of(entry.path().filename().string())) {
      found.push_back({*generation, entry.path()});
    }
  }
  std::sort(found.begin(), found.end(), [](const CheckpointFile& a, const CheckpointFile& b) {
    return a.generation < b.generation;
  });
  return found;
}

std::vector<fs::path> list_temporaries(const fs::path& dir) {
  std::vector<fs::path> found;
  for (const fs::path& folder : {dir, dir / "checkpoints"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().filename().string().starts_with(".tmp-")) {
        found.push_back(entry.path());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

LockState lock_state(const fs::path& dir) {
  const fs::path path = dir / "lock";
  LockState state;
  if (!fs::exists(path)) {
    return state;
  }
  const UniqueFd fd = open_file(path, O_RDONLY);
  if (::flock(fd.get(), LOCK_SH | LOCK_NB) != 0) {
    state.held = errno == EWOULDBLOCK;
  } else {
    ::flock(fd.get(), LOCK_UN);
  }
  state.holder = read_text_file(path);
  state.holder.erase(std::remove(state.holder.begin(), state.holder.end(), '\n'),
                     state.holder.end());
  return state;
}

ConfigurationState configuration_state(const fs::path& dir) {
  const fs::path path = dir / "configuration.ini";
  if (!fs::exists(path)) {
    return ConfigurationState::kMissing;
  }
  return parse_stored(read_text_file(path)).is_intact ? ConfigurationState::kIntact
                                                      : ConfigurationState::kChanged;
}

}  // namespace apo::store
