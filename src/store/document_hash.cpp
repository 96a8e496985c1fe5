#include "document_hash.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fstream>
#include <type_traits>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"
#include "apo/core/sha256.hpp"

namespace apo::store {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

std::int64_t num_elements(const Array& array) {
  std::int64_t n = 1;
  for (const std::int64_t extent : array.shape) {
    n *= extent;
  }
  return n;
}

RawArray raw_array(const std::string& path, const Array& array) {
  const auto n = static_cast<std::size_t>(num_elements(array));
  RawArray raw;
  std::visit(
      [&](const auto& values) {
        using T = typename std::decay_t<decltype(values)>::value_type;
        expects(values.size() == n, fmt::format("{}: {} values for shape [{}]", path, values.size(),
                                                fmt::join(array.shape, ", ")));
        if constexpr (std::is_same_v<T, std::string>) {
          std::size_t longest = 1;  // HDF5 has no strings of length 0
          for (const std::string& text : values) {
            expects(text.find('\0') == std::string::npos, path + ": a text holds a zero byte");
            longest = std::max(longest, text.size());
          }
          raw.padded.assign(n * longest, '\0');
          for (std::size_t i = 0; i < n; ++i) {
            std::copy(values[i].begin(), values[i].end(),
                      raw.padded.begin() + static_cast<std::ptrdiff_t>(i * longest));
          }
          raw.type = fmt::format("string[{}]", longest);
          raw.element_bytes = longest;
          raw.bytes = std::as_bytes(std::span<const char>(raw.padded));
        } else {
          raw.type = std::is_same_v<T, double>  ? "float64"
                     : std::is_same_v<T, float> ? "float32"
                                                : "int64";
          raw.element_bytes = sizeof(T);
          raw.bytes = std::as_bytes(std::span<const T>(values));
        }
      },
      array.values);
  return raw;
}

namespace {

/// Length before bytes, so that no two different contents give one text.
void feed(Sha256& hash, std::string_view text) {
  hash.update(fmt::format("{}:", text.size()));
  hash.update(text);
}

template <class T>
void feed_values(Sha256& hash, std::string_view kind, const std::vector<T>& values) {
  feed(hash, kind);
  feed(hash, std::to_string(values.size()));
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string>) {
      feed(hash, value);
    } else {  // the bits, so that -0 and NaN count too
      feed(hash, std::to_string(std::bit_cast<std::uint64_t>(value)));
    }
  }
}

void feed_attribute(Sha256& hash, const Attribute& attribute) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>) {
          feed_values(hash, "scalar", std::vector<T>{value});
        } else {
          feed_values(hash, "list", value);
        }
      },
      attribute);
  feed(hash, std::to_string(attribute.index()));
}

}  // namespace

std::string content_hash(const Document& document,
                         const std::map<std::string, std::string>& data_hashes) {
  Sha256 hash;
  for (const auto& [path, array] : document.arrays) {
    feed(hash, path);
    feed(hash, raw_array(path, array).type);
    feed(hash, fmt::format("{}", fmt::join(array.shape, ",")));
    feed(hash, array.units);
    feed(hash, array.long_name);
    feed_values(hash, "dimensions", array.dimensions);
    feed(hash, data_hashes.at(path));
  }
  for (const auto& [group, attributes] : document.attributes) {
    for (const auto& [name, value] : attributes) {
      feed(hash, group);
      feed(hash, name);
      feed_attribute(hash, value);
    }
  }
  return hash.hex();
}

std::string content_hash(const Document& document) {
  std::map<std::string, std::string> hashes;
  for (const auto& [path, array] : document.arrays) {
    Sha256 hash;
    hash.update(raw_array(path, array).bytes);
    hashes[path] = hash.hex();
  }
  return content_hash(document, hashes);
}

void verify_written(const std::filesystem::path& path, const std::string& expected_content_hash) {
  UniqueFd fd = open_file(path, O_RDONLY);
  if (::fsync(fd.get()) != 0) {
    throw_errno("fsync", path);
  }
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);  // advice: the comparison holds without
  fd.close(path);
  std::string found;
  try {
    found = content_hash(read_document(path));
  } catch (const Error& error) {
    throw BackendError("reading back " + path.string(), EIO, error.what());
  }
  if (found != expected_content_hash) {
    throw BackendError("reading back " + path.string(), EIO,
                       "what was written is whole, but not what is in memory");
  }
}

std::string hash_of_file(const std::filesystem::path& path, std::uint64_t num_bytes) {
  std::ifstream in(path, std::ios::binary);
  Sha256 hash;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (num_bytes > 0) {
    const auto wanted = std::min<std::uint64_t>(buffer.size(), num_bytes);
    in.read(buffer.data(), static_cast<std::streamsize>(wanted));
    if (!in) {
      throw Error(Fault::kData, path.string() + ": cannot be read");
    }
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(wanted)));
    num_bytes -= wanted;
  }
  return hash.hex();
}

std::string seal_text(const std::string& sha256, std::uint64_t num_bytes) {
  return fmt::format("\napo-seal 1 sha256 {} bytes {:020d}\n", sha256, num_bytes);
}

std::size_t seal_size() { return seal_text(std::string(64, '0'), 0).size(); }

}  // namespace apo::store
