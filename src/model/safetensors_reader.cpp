#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "json_text.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

constexpr std::size_t kMaxShards = 1000;
constexpr std::size_t kMaxIndexBytes = 64U << 20U;
constexpr std::string_view kIndexName = "model.safetensors.index.json";

/// A file that is open for reading. Its size is taken once; a file that shrinks later gives an
/// error from read(), not a signal.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) {
      throw Error(Fault::kData,
                  fmt::format("{}: cannot be opened: {}", path_.string(), std::strerror(errno)));
    }
    struct stat status {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(fd_);
      throw Error(Fault::kData, fmt::format("{}: not a regular file", path_.string()));
    }
    num_bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~InputFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)),
        fd_(std::exchange(other.fd_, -1)),
        num_bytes_(other.num_bytes_) {}
  InputFile& operator=(InputFile&&) = delete;

  [[nodiscard]] std::uint64_t num_bytes() const { return num_bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void read(std::span<std::byte> out, std::uint64_t begin) const {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t n =
          ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(begin + done));
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0) {
        throw BackendError("pread " + path_.string(), errno, std::strerror(errno));
      }
      if (n == 0) {
        throw Error(Fault::kData, fmt::format("{}: ends at byte {}, it had {} when it was opened",
                                              path_.string(), begin + done, num_bytes_));
      }
      done += static_cast<std::size_t>(n);
    }
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t num_bytes_ = 0;
};

float float_from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

float float_from_bf16(std::uint16_t v) {
  return float_from_bits(static_cast<std::uint32_t>(v) << 16U);
}

float float_from_f16(std::uint16_t v) {
  const std::uint32_t sign = static_cast<std::uint32_t>(v & 0x8000U) << 16U;
  const std::uint32_t exponent = (v >> 10U) & 0x1FU;
  const std::uint32_t fraction = v & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t rebased = exponent == 0x1FU ? 0xFFU : exponent + 112U;
  return float_from_bits(sign | rebased << 23U | fraction << 13U);
}

template <float (*Convert)(std::uint16_t)>
void widen(std::span<const std::byte> bytes, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    out[i] = Convert(half);
  }
}

void check_shard_name(const std::string& shard, const std::string& tensor,
                      const std::string& index) {
  const bool bare = !shard.empty() &&
                    shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                    shard.find("..") == std::string::npos;
  if (!bare || !shard.ends_with(".safetensors")) {
    throw Error(Fault::kData,
                fmt::format("{}: tensor '{}' is mapped to {}, expected a bare file name that ends "
                            "in .safetensors",
                            index, tensor.substr(0, 80), shown(nlohmann::json(shard))));
  }
}

/// weight_map of an index: tensor name -> shard.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const std::string name = path.string();
  const nlohmann::json index = parse_json_object(read_text_file(path, kMaxIndexBytes), name);
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object() || found->empty()) {
    throw Error(Fault::kData, fmt::format("{}: expected a non-empty object weight_map", name));
  }
  std::map<std::string, std::string> shard_of;
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : found->items()) {
    if (!shard.is_string()) {
      throw Error(Fault::kData, fmt::format("{}: tensor '{}' is mapped to {}, expected a file name",
                                            name, tensor.substr(0, 80), shown(shard)));
    }
    const auto file = shard.get<std::string>();
    check_shard_name(file, tensor, name);
    shards.insert(file);
    if (shards.size() > kMaxShards) {
      throw Error(Fault::kData, fmt::format("{}: more than {} shards", name, kMaxShards));
    }
    shard_of.emplace(tensor, file);
  }
  return shard_of;
}

}  // namespace

struct CheckpointReader::Impl {
  std::vector<InputFile> files;
  std::vector<std::uint64_t> data_starts;
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::size_t> file_of;
  std::map<std::string, std::string> metadata;

  SafetensorsHeader add_file(const std::filesystem::path& path) {
    files.emplace_back(path);
    const InputFile& file = files.back();
    // Enough for the length, or to recognise a Git LFS pointer.
    std::vector<std::byte> prefix(std::min<std::uint64_t>(file.num_bytes(), 64));
    file.read(prefix, 0);
    std::uint64_t n = 0;
    if (prefix.size() >= 8) {
      std::memcpy(&n, prefix.data(), 8);
      if (n <= file.num_bytes() - 8 && n <= 100'000'000) {
        prefix.resize(8 + n);
        file.read(prefix, 0);
      }
    }
    SafetensorsHeader header = parse_safetensors_header(prefix, file.num_bytes(), path.string());
    data_starts.push_back(header.data_start);
    metadata.insert(header.metadata.begin(), header.metadata.end());
    return header;
  }

  void open_single(const std::filesystem::path& path) {
    for (TensorInfo& t : add_file(path).tensors) {
      file_of.emplace(t.name, 0);
      tensors.emplace(t.name, std::move(t));
    }
  }

  void open_sharded(const std::filesystem::path& index) {
    const std::map<std::string, std::string> shard_of = read_index(index);
    std::map<std::string, std::size_t> position;
    for (const auto& [tensor, shard] : shard_of) {
      position.emplace(shard, 0);
    }
    std::size_t num_extra = 0;
    for (auto& [shard, file_index] : position) {
      file_index = files.size();
      for (TensorInfo& t : add_file(index.parent_path() / shard).tensors) {
        const auto mapped = shard_of.find(t.name);
        if (mapped == shard_of.end() || mapped->second != shard) {
          ++num_extra;
          continue;
        }
        file_of.emplace(t.name, file_index);
        tensors.emplace(t.name, std::move(t));
      }
    }
    for (const auto& [tensor, shard] : shard_of) {
      if (!tensors.contains(tensor)) {
        throw Error(Fault::kData, fmt::format("{}: tensor '{}' should be in {}, which lacks it",
                                              index.string(), tensor, shard));
      }
    }
    if (num_extra > 0) {
      log::warn("{}: {} tensors of the shards are not in the index and are ignored", index.string(),
                num_extra);
    }
  }

  [[nodiscard]] const TensorInfo& info(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      throw Error(Fault::kData, fmt::format("{}: no tensor '{}'", files[0].path().string(), name));
    }
    return found->second;
  }

  void read(const TensorInfo& t, std::span<std::byte> out) const {
    const std::size_t file = file_of.at(t.name);
    files[file].read(out, data_starts[file] + t.begin);
  }
};

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

CheckpointReader CheckpointReader::open(const std::filesystem::path& path) {
  auto impl = std::make_unique<Impl>();
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) {
    impl->open_single(path);
  } else if (std::filesystem::exists(path / "model.safetensors", code)) {
    impl->open_single(path / "model.safetensors");
  } else if (std::filesystem::exists(path / kIndexName, code)) {
    impl->open_sharded(path / kIndexName);
  } else {
    const bool pickled = std::filesystem::exists(path / "pytorch_model.bin", code) ||
                         std::filesystem::exists(path / "pytorch_model.bin.index.json", code);
    throw Error(
        Fault::kData,
        fmt::format("{}: holds neither model.safetensors nor {}{}", path.string(), kIndexName,
                    pickled ? "; pytorch_model.bin is not read, convert it first" : ""));
  }
  return CheckpointReader(std::move(impl));
}

const std::map<std::string, TensorInfo>& CheckpointReader::tensors() const {
  return impl_->tensors;
}

const std::map<std::string, std::string>& CheckpointReader::metadata() const {
  return impl_->metadata;
}

std::vector<std::byte> CheckpointReader::read_bytes(const std::string& name) const {
  const TensorInfo& t = impl_->info(name);
  std::vector<std::byte> bytes(t.end - t.begin);
  impl_->read(t, bytes);
  return bytes;
}

std::vector<float> CheckpointReader::read_float32(const std::string& name) const {
  const TensorInfo& t = impl_->info(name);
  const std::string file = impl_->files[impl_->file_of.at(name)].path().string();
  std::vector<float> values;
  if (t.dtype == "F32") {
    values.resize((t.end - t.begin) / 4);
    impl_->read(t, std::as_writable_bytes(std::span(values)));
  } else if (t.dtype == "BF16" || t.dtype == "F16") {
    values.resize((t.end - t.begin) / 2);
    const std::vector<std::byte> bytes = read_bytes(name);
    if (t.dtype == "BF16") {
      widen<float_from_bf16>(bytes, values);
    } else {
      widen<float_from_f16>(bytes, values);
    }
  } else {
    throw Error(Fault::kData, fmt::format("{}: tensor '{}' is {}, expected F32, F16 or BF16", file,
                                          name, t.dtype));
  }
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (bad != values.end()) {
    throw Error(Fault::kData, fmt::format("{}: tensor '{}' holds {} at position {}", file, name,
                                          *bad, bad - values.begin()));
  }
  return values;
}

}  // namespace apo::model
