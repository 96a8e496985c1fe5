#include <algorithm>
#include <array>
#include <bit>

#include "safetensors_dtype.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {

namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

void check_tensor(const TensorToWrite& t) {
  const auto dtype = find_dtype(t.dtype);
  expects(dtype.has_value(), fmt::format("tensor '{}': unknown dtype {}", t.name, t.dtype));
  expects(t.name != "__metadata__", "a tensor may not be called __metadata__");
  std::uint64_t bits = dtype->bits;
  for (const std::int64_t dim : t.shape) {
    expects(dim >= 0, fmt::format("tensor '{}': negative dimension", t.name));
    bits *= static_cast<std::uint64_t>(dim);
  }
  expects(bits % 8 == 0 && bits / 8 == t.bytes.size(),
          fmt::format("tensor '{}': {} bytes, shape and dtype need {} bits", t.name, t.bytes.size(),
                      bits));
}

/// Puts the tensors into file order and returns the length, the JSON and its padding.
std::string make_header(std::vector<TensorToWrite>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::for_each(tensors.begin(), tensors.end(), check_tensor);
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    const int a_order = find_dtype(a.dtype)->order;
    const int b_order = find_dtype(b.dtype)->order;
    return a_order != b_order ? a_order > b_order : a.name < b.name;
  });
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) {
      pairs.push_back(quoted(key) + ":" + quoted(value));
    }
    entries.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  std::uint64_t begin = 0;
  for (const TensorToWrite& t : tensors) {
    const std::uint64_t end = begin + t.bytes.size();
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  quoted(t.name), t.dtype, fmt::join(t.shape, ","), begin, end));
    begin = end;
  }
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    expects(tensors[i - 1].name != tensors[i].name,
            fmt::format("tensor '{}' is given twice", tensors[i].name));
  }
  std::string json = fmt::format("{{{}}}", fmt::join(entries, ","));
  json.append((8 - json.size() % 8) % 8, ' ');
  const auto n = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(json.size()));
  return std::string(n.begin(), n.end()) + json;
}

}  // namespace

std::vector<std::byte> serialize_safetensors(std::vector<TensorToWrite> tensors,
                                             const std::map<std::string, std::string>& metadata) {
  const std::string header = make_header(tensors, metadata);
  const auto header_bytes = std::as_bytes(std::span(header));
  std::vector<std::byte> bytes(header_bytes.begin(), header_bytes.end());
  for (const TensorToWrite& t : tensors) {
    bytes.insert(bytes.end(), t.bytes.begin(), t.bytes.end());
  }
  return bytes;
}

void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = make_header(tensors, metadata);
  PendingFile pending(path);
  UniqueFd file = create_file(pending.path());
  write_all(file, header, pending.path());
  for (const TensorToWrite& t : tensors) {
    write_all(file, {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()},
              pending.path());
  }
  file.close(pending.path());
  pending.publish();
}

}  // namespace apo::model
