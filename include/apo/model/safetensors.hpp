#pragma once

/// @file
/// safetensors files, single and sharded, with every rule of spec llm.md, section 1. No torch here.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace apo::model {

/// One tensor of a file; bytes are [begin, end) of the data buffer.
struct TensorInfo {
  std::string name;
  std::string dtype;  ///< "F32", "BF16", ... as in the file
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              ///< by (begin, end)
  std::map<std::string, std::string> metadata;  ///< __metadata__
  std::uint64_t data_start = 0;                 ///< 8 + N
};

/// Parses and validates a header.
/// @param prefix     the first bytes of the file, at least 8 + N of them when the file has so many
/// @param file_size  bytes of the whole file
/// @param name       of the file, for messages
/// @throws Error(kData)  any rule of section 1.2 or 1.4 is broken; the message says which
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::span<const std::byte> prefix,
                                                         std::uint64_t file_size,
                                                         std::string_view name);

/// One file or a sharded checkpoint (model.safetensors.index.json); reads by pread, never mmap.
class CheckpointReader {
 public:
  /// @param path  a .safetensors file, or a folder with model.safetensors or the index
  static CheckpointReader open(const std::filesystem::path& path);
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;
  ~CheckpointReader();

  [[nodiscard]] const std::map<std::string, TensorInfo>& tensors() const;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;

  /// Raw little-endian bytes of one tensor.
  [[nodiscard]] std::vector<std::byte> read_bytes(const std::string& name) const;
  /// Values as float32 (from F32, F16 or BF16), in row-major order.
  /// @throws Error(kData)  other dtype, or a value that is not finite: names tensor and position
  [[nodiscard]] std::vector<float> read_float32(const std::string& name) const;

 private:
  struct Impl;
  explicit CheckpointReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A tensor to be written; `bytes` must hold shape x element size.
struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes to a temporary file in the same folder, fsync, rename, folder fsync. Byte-identical to
/// the reference writer (order, padding, __metadata__ first).
void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata);

/// The same bytes in memory; for tests and small files.
[[nodiscard]] std::vector<std::byte> serialize_safetensors(
    std::vector<TensorToWrite> tensors, const std::map<std::string, std::string>& metadata);

}  // namespace apo::model
