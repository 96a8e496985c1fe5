#include "apo/store/run_directory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <iterator>
#include <set>

#include "configuration_text.hpp"
#include "directory_lock.hpp"
#include "free_space.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/store/directory_state.hpp"

namespace apo::store {

namespace fs = std::filesystem;

namespace {

void make_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) {
    throw BackendError("mkdir", code.value(), folder.string() + ": " + code.message());
  }
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

void accept_checkpoint(const Document& document, const fs::path& path,
                       const std::function<void(const Document&)>& accept) {
  try {
    accept(document);
  } catch (const std::exception& reason) {
    throw Error(Fault::kConfig, fmt::format("{}: whole, but no checkpoint of this run: {}",
                                            path.string(), reason.what()));
  }
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
  std::set<std::int64_t> whole;  ///< written or read by this start
  bool warned_of_room = false;
  dev_t device = 0;  ///< with `inode`: which folder was opened
  ino_t inode = 0;

  [[nodiscard]] fs::path checkpoints() const { return dir / "checkpoints"; }
  [[nodiscard]] fs::path checkpoint(std::int64_t number) const {
    return checkpoints() / fmt::format("checkpoint-{:06d}.h5", number);
  }
  [[nodiscard]] fs::path metrics_path() const { return dir / "metrics.jsonl"; }

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
    if (stored.text == configuration) {
      return;
    }
    const auto difference = configuration_difference(stored.text, configuration);
    if (!difference.is_harmless) {
      throw Error(Fault::kConfig,
                  fmt::format("{} holds a run of another configuration; use a new --out folder, or "
                              "undo these differences:{}",
                              dir.string(), difference.text));
    }
    log::info("{} goes on with settings that change no result:{}", dir.string(), difference.text);
    publish_text_file(path, with_hash_line(configuration));
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

  /// The new checkpoint is safe by now: nothing here is worth a failure. Files of earlier starts
  /// that nobody has read may be damaged: they neither count nor go before there are enough others.
  void prune() const {
    const auto keep = static_cast<std::ptrdiff_t>(options.keep);
    if (std::ssize(whole) < keep) {
      return;
    }
    const std::int64_t oldest_kept = *std::prev(whole.end(), keep);
    try {
      for (const CheckpointFile& file : list_checkpoints(dir)) {
        if (file.generation < oldest_kept && damaged.count(file.generation) == 0) {
          fs::remove(file.path);
        }
      }
    } catch (const fs::filesystem_error& failure) {
      log::warn("old checkpoints are left: {}", failure.what());
    }
  }

  /// Says so once when the next checkpoint, with a run file beside it, will not fit.
  void look_at_room(const Document& state) {
    const auto room = free_bytes(checkpoints());
    const std::uint64_t next = 2 * least_bytes(state);
    const bool scarce = room && *room < next;
    if (scarce && !warned_of_room) {
      log::warn(
          "{}: {:.1f} MiB are free, and the next checkpoint with its run file takes {:.1f} MiB",
          dir.string(), static_cast<double>(*room) / (1024.0 * 1024.0),
          static_cast<double>(next) / (1024.0 * 1024.0));
    }
    warned_of_room = scarce;
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
  struct stat status {};
  if (::stat(dir.c_str(), &status) != 0) {
    throw_errno("stat", dir);
  }
  impl->device = status.st_dev;
  impl->inode = status.st_ino;
  make_folder(impl->checkpoints());
  remove_temporaries(dir);
  remove_temporaries(impl->checkpoints());
  impl->settle_configuration(configuration);
  impl->metrics = open_file(impl->metrics_path(), O_RDWR | O_CREAT | O_APPEND);
  impl->drop_torn_line();
  const auto found = list_checkpoints(dir);
  impl->last_generation = found.empty() ? 0 : found.back().generation;
  return RunDirectory(std::move(impl));
}

const fs::path& RunDirectory::path() const { return impl_->dir; }
const CheckpointOptions& RunDirectory::options() const { return impl_->options; }
std::int64_t RunDirectory::generation() const { return impl_->generation; }

bool RunDirectory::exists() const {
  struct stat status {};
  return ::stat(impl_->dir.c_str(), &status) == 0 && status.st_dev == impl_->device &&
         status.st_ino == impl_->inode;
}

void RunDirectory::publish_checkpoint(const Document& state) {
  // The checkpoint names a length of metrics.jsonl: those bytes have to be there first.
  if (::fdatasync(impl_->metrics.get()) != 0) {
    throw_errno("fdatasync", impl_->metrics_path());
  }
  const std::int64_t number = impl_->last_generation + 1;
  const int every = impl_->options.verify_every;
  write_document(impl_->checkpoint(number), state, {.verify = every > 0 && number % every == 0});
  impl_->generation = impl_->last_generation = number;
  impl_->whole.insert(number);
  impl_->prune();
  impl_->look_at_room(state);
}

std::optional<Document> RunDirectory::load_checkpoint(
    const std::function<void(const Document&)>& accept) {
  const auto found = list_checkpoints(impl_->dir);
  for (auto file = found.rbegin(); file != found.rend(); ++file) {
    try {
      Document document = read_document(file->path);
      if (accept) {
        accept_checkpoint(document, file->path, accept);
      }
      impl_->generation = file->generation;
      impl_->whole.insert(file->generation);
      return document;
    } catch (const Error& error) {
      if (impl_->damaged.insert(file->generation).second) {  // once per start
        log::warn("checkpoint {} is skipped: {}", file->generation, error.what());
      }
    }
  }
  return std::nullopt;
}

void RunDirectory::publish_run_file(const Document& run) {
  write_document(impl_->dir / "run.h5", run);
}

std::string RunDirectory::status() const {
  const fs::path path = impl_->dir / "status.json";
  return fs::exists(path) ? read_text_file(path) : "";
}

bool RunDirectory::finished() const {
  if (!has_member(status(), "state", "complete")) {
    return false;
  }
  try {
    (void)read_document(impl_->dir / "run.h5");
    return true;
  } catch (const Error& error) {
    log::warn("{} was complete, but its results are damaged and are made again: {}",
              impl_->dir.string(), error.what());
    return false;
  }
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
  publish_text_file(impl_->dir / "status.json", std::string(json) + "\n");
}

}  // namespace apo::store
