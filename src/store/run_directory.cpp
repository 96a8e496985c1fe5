#include "apo/store/run_directory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <set>

#include "configuration_text.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apo/core/clock.hpp"
#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"

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

void make_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) {
    throw BackendError("mkdir", code.value(), folder.string() + ": " + code.message());
  }
}

/// flock is released by the kernel when the process dies, however it dies.
UniqueFd take_lock(const fs::path& dir) {
  const fs::path path = dir / "lock";
  UniqueFd fd = open_file(path, O_RDWR | O_CREAT);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      const int code = errno;
      std::string holder = read_text_file(path);
      holder.erase(std::remove(holder.begin(), holder.end(), '\n'), holder.end());
      throw BackendError("flock", code,
                         fmt::format("{}: another job works in this folder ({})", path.string(),
                                     holder.empty() ? "it left no name" : holder));
    }
    if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS) {
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

/// Value of the text member `name`: "name" : "value". Enough for the status files written here.
bool has_member(std::string_view json, std::string_view name, std::string_view value) {
  const std::string key = fmt::format("\"{}\"", name);
  const std::string wanted = fmt::format("\"{}\"", value);
  for (auto at = json.find(key); at != std::string_view::npos; at = json.find(key, at + 1)) {
    auto rest = json.substr(at + key.size());
    const auto skip_spaces = [&] {
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
    };
    skip_spaces();
    if (!rest.starts_with(':')) {
      continue;
    }
    rest.remove_prefix(1);
    skip_spaces();
    if (rest.starts_with(wanted)) {
      return true;
    }
  }
  return false;
}

}  // namespace

struct RunDirectory::Impl {
  fs::path dir;
  CheckpointOptions options;
  UniqueFd lock;
  UniqueFd metrics;
  std::int64_t generation = 0;       ///< newest published or loaded
  std::int64_t last_generation = 0;  ///< largest number in use, also by a damaged file
  std::set<std::int64_t> damaged;

  [[nodiscard]] fs::path checkpoints() const { return dir / "checkpoints"; }
  [[nodiscard]] fs::path checkpoint(std::int64_t number) const {
    return checkpoints() / fmt::format("{}{:06d}{}", kPrefix, number, kSuffix);
  }
  [[nodiscard]] fs::path metrics_path() const { return dir / "metrics.jsonl"; }

  /// Oldest first.
  [[nodiscard]] std::vector<std::pair<std::int64_t, fs::path>> list_checkpoints() const {
    std::vector<std::pair<std::int64_t, fs::path>> found;
    for (const auto& entry : fs::directory_iterator(checkpoints())) {
      if (const auto number = generation_of(entry.path().filename().string())) {
        found.emplace_back(*number, entry.path());
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  void settle_configuration(const std::string& configuration) const {
    const fs::path path = dir / "configuration.ini";
    if (!fs::exists(path)) {
      publish_text_file(path, with_hash_line(configuration));
      return;
    }
    const StoredConfiguration stored = parse_stored(read_text_file(path));
    if (!stored.is_intact) {
      throw Error(Fault::kConfig,
                  fmt::format("{}: was changed after the run began (its SHA-256 line does not "
                              "match); restore it, or use a new --out folder",
                              path.string()));
    }
    if (stored.text != configuration) {
      throw Error(Fault::kConfig,
                  fmt::format("{} holds a run of another configuration; use a new --out folder, or "
                              "undo these differences:{}",
                              dir.string(), configuration_difference(stored.text, configuration)));
    }
  }

  [[nodiscard]] std::int64_t size_of_metrics() const {
    struct stat status {};
    if (::fstat(metrics.get(), &status) != 0) {
      throw_errno("fstat", metrics_path());
    }
    return status.st_size;
  }

  void cut_metrics(std::int64_t size) {
    if (::ftruncate(metrics.get(), size) != 0) {
      throw_errno("ftruncate", metrics_path());
    }
  }

  /// Cuts behind the last newline.
  void drop_torn_line() {
    const std::int64_t size = size_of_metrics();
    std::int64_t end = size;
    std::array<char, 4096> block{};
    while (end > 0) {
      const auto length = std::min<std::int64_t>(end, static_cast<std::int64_t>(block.size()));
      const ssize_t n =
          ::pread(metrics.get(), block.data(), static_cast<std::size_t>(length), end - length);
      if (n != length) {
        throw_errno("pread", metrics_path());
      }
      const std::string_view text(block.data(), static_cast<std::size_t>(length));
      if (const auto newline = text.rfind('\n'); newline != std::string_view::npos) {
        end = end - length + static_cast<std::int64_t>(newline) + 1;
        break;
      }
      end -= length;
    }
    if (end != size) {
      log::warn("{}: dropping the torn last line ({} bytes)", metrics_path().string(), size - end);
      cut_metrics(end);
    }
  }

  void prune() const {
    auto found = list_checkpoints();
    std::erase_if(found, [&](const auto& entry) { return damaged.count(entry.first) != 0; });
    const auto keep = static_cast<std::size_t>(options.keep);
    for (std::size_t i = 0; i + keep < found.size(); ++i) {
      std::error_code code;
      if (!fs::remove(found[i].second, code) && code) {
        log::warn("{}: cannot be removed: {}", found[i].second.string(), code.message());
      }
    }
  }
};

RunDirectory::RunDirectory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunDirectory::RunDirectory(RunDirectory&&) noexcept = default;
RunDirectory& RunDirectory::operator=(RunDirectory&&) noexcept = default;
RunDirectory::~RunDirectory() {
  if (impl_ && impl_->lock.valid() && ::ftruncate(impl_->lock.get(), 0) != 0) {
    log::warn("{}/lock: cannot be emptied", impl_->dir.string());
  }
}

RunDirectory RunDirectory::open(const fs::path& dir, const std::string& configuration,
                                const CheckpointOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->dir = dir;
  impl->options = options;
  make_folder(dir);
  impl->lock = take_lock(dir);
  make_folder(impl->checkpoints());
  remove_temporaries(dir);
  remove_temporaries(impl->checkpoints());
  impl->settle_configuration(configuration);
  impl->metrics = open_file(impl->metrics_path(), O_RDWR | O_CREAT | O_APPEND);
  impl->drop_torn_line();
  const auto found = impl->list_checkpoints();
  impl->last_generation = found.empty() ? 0 : found.back().first;
  return RunDirectory(std::move(impl));
}

const fs::path& RunDirectory::path() const { return impl_->dir; }
std::int64_t RunDirectory::generation() const { return impl_->generation; }

void RunDirectory::publish_checkpoint(const Document& state) {
  // The checkpoint names a length of metrics.jsonl: those bytes have to be there first.
  if (::fdatasync(impl_->metrics.get()) != 0) {
    throw_errno("fdatasync", impl_->metrics_path());
  }
  const std::int64_t number = impl_->last_generation + 1;
  write_document(impl_->checkpoint(number), state);
  impl_->generation = impl_->last_generation = number;
  impl_->prune();
}

std::optional<Document> RunDirectory::load_checkpoint() {
  auto found = impl_->list_checkpoints();
  for (auto entry = found.rbegin(); entry != found.rend(); ++entry) {
    try {
      Document document = read_document(entry->second);
      impl_->generation = entry->first;
      return document;
    } catch (const Error& error) {
      log::warn("checkpoint {} is skipped: {}", entry->first, error.what());
      impl_->damaged.insert(entry->first);
    }
  }
  return std::nullopt;
}

void RunDirectory::publish_run_file(const Document& run) {
  write_document(impl_->dir / "run.h5", run);
}

bool RunDirectory::finished() const {
  const fs::path status = impl_->dir / "status.json";
  return fs::exists(status) && has_member(read_text_file(status), "state", "complete");
}

void RunDirectory::append_metrics(std::string_view json_line) {
  expects(json_line.find('\n') == std::string_view::npos, "a line of metrics holds a newline");
  const std::string line = std::string(json_line) + "\n";
  const std::int64_t before = metrics_size();
  ssize_t n = 0;
  do {
    n = ::write(impl_->metrics.get(), line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(line.size())) {
    return;
  }
  const int code = n < 0 ? errno : ENOSPC;  // a short write to a file means a full disk
  impl_->cut_metrics(before);
  errno = code;
  throw_errno("write", impl_->metrics_path());
}

std::int64_t RunDirectory::metrics_size() const { return impl_->size_of_metrics(); }

void RunDirectory::truncate_metrics(std::int64_t size) {
  expects(size >= 0, "negative size of metrics.jsonl");
  const std::int64_t present = metrics_size();
  if (present < size) {
    log::warn("{}: has {} bytes, but the checkpoint was made at {}: lines are missing",
              impl_->metrics_path().string(), present, size);
  } else {
    impl_->cut_metrics(size);
  }
  impl_->drop_torn_line();
}

void RunDirectory::write_status(std::string_view json) {
  // Pollers need whole files; only the last word on the run has to survive a power cut.
  publish_text_file(impl_->dir / "status.json", std::string(json) + "\n",
                    has_member(json, "state", "complete"));
}

}  // namespace apo::store
