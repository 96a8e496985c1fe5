#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "safetensors_dtype.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"
#include "apo/model/safetensors.hpp"

namespace apo::model {

namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxTensors = 100'000;
constexpr std::size_t kMaxNameBytes = 512;
constexpr std::size_t kMaxRank = 8;
constexpr std::size_t kMaxKeys = 32;  // inside one tensor's object
constexpr int kMaxDepth = 4;

[[noreturn]] void reject(std::string_view name, std::string_view reason, std::string_view detail) {
  throw Error(Fault::kData, fmt::format("{}: {}: {}", name, reason, detail));
}

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t more = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
      more = 1;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      more = 2;
      low = lead == 0xE0 ? 0xA0 : 0x80;
      high = lead == 0xED ? 0x9F : 0xBF;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      more = 3;
      low = lead == 0xF0 ? 0x90 : 0x80;
      high = lead == 0xF4 ? 0x8F : 0xBF;
    } else {
      return false;
    }
    if (text.size() - i <= more) {
      return false;
    }
    for (std::size_t k = 1; k <= more; ++k) {
      const auto c = static_cast<unsigned char>(text[i + k]);
      if (c < (k == 1 ? low : 0x80) || c > (k == 1 ? high : 0xBF)) {
        return false;
      }
    }
    i += more + 1;
  }
  return true;
}

struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
};

/// Receives the header's JSON token by token: nothing is built that the limits do not bound, and
/// depth costs no stack. Returning false ends the parse; `reason` and `detail` say why.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::string reason = "InvalidHeaderDeserialization";
  std::string detail;

  bool null() override { return other_value("null"); }
  bool boolean(bool) override { return other_value("a boolean"); }
  bool number_integer(number_integer_t v) override {
    return other_value(fmt::format("the number {}", v));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return other_value(fmt::format("the number {}", text.substr(0, 40)));
  }
  bool binary(binary_t&) override { return other_value("binary"); }

  bool number_unsigned(number_unsigned_t v) override {
    if (skip_from_ == 0 && depth_ == 3) {
      auto& list = in_shape_ ? tensors.back().shape : tensors.back().offsets;
      if (list.size() >= kMaxRank) {
        return fail(fmt::format("{} has more than {} numbers", here(), kMaxRank));
      }
      list.push_back(v);
      return true;
    }
    return other_value(fmt::format("the number {}", v));
  }

  bool string(string_t& text) override {
    if (skip_from_ == 0 && depth_ == 2 && in_metadata_) {
      metadata[key_] = text;
      return true;
    }
    if (skip_from_ == 0 && depth_ == 2 && key_ == "dtype") {
      if (!find_dtype(text)) {
        return fail(fmt::format("tensor '{}' has the unknown dtype '{}'", tensors.back().name,
                                text.substr(0, 40)));
      }
      tensors.back().dtype = text;
      return true;
    }
    return other_value(fmt::format("the text \"{}\"", text.substr(0, 40)));
  }

  bool start_object(std::size_t) override {
    const bool ignored = enters_ignored();
    if (!ignored && depth_ >= 2) {
      return fail(fmt::format("{} is an object", here()));
    }
    return descend();
  }

  bool start_array(std::size_t) override {
    if (depth_ == 0) {
      return fail("expected a JSON object, found an array");
    }
    if (!enters_ignored()) {
      if (depth_ != 2 || in_metadata_) {
        return fail(fmt::format("{} is an array", here()));
      }
      if (key_ == "dtype") {
        return fail(fmt::format("{} is an array, expected text", here()));
      }
      in_shape_ = key_ == "shape";
    }
    return descend();
  }

  bool end_object() override {
    ascend();
    if (depth_ == 1 && !in_metadata_) {
      const RawTensor& t = tensors.back();
      for (const char* needed : {"dtype", "shape", "data_offsets"}) {
        if (std::find(keys_.begin(), keys_.end(), needed) == keys_.end()) {
          return fail(fmt::format("tensor '{}' has no {}", t.name, needed));
        }
      }
      if (t.offsets.size() != 2) {
        return fail(
            fmt::format("tensor '{}' has {} data_offsets, expected 2", t.name, t.offsets.size()));
      }
    }
    return true;
  }

  bool end_array() override {
    ascend();
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ == 1) {
      return top_level_key(text);
    }
    if (depth_ != 2 || skip_from_ != 0) {
      return true;  // inside a value that is ignored
    }
    if (in_metadata_) {
      if (metadata.contains(text)) {
        return duplicate(fmt::format("__metadata__ has '{}' twice", text.substr(0, 80)));
      }
      if (metadata.size() >= kMaxTensors) {
        return fail(fmt::format("__metadata__ has more than {} entries", kMaxTensors));
      }
    } else {
      if (std::find(keys_.begin(), keys_.end(), text) != keys_.end()) {
        return duplicate(
            fmt::format("tensor '{}' has '{}' twice", tensors.back().name, text.substr(0, 80)));
      }
      if (keys_.size() >= kMaxKeys) {
        return fail(
            fmt::format("tensor '{}' has more than {} keys", tensors.back().name, kMaxKeys));
      }
      keys_.push_back(text);
    }
    key_ = text;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& e) override {
    return fail(fmt::format("not valid JSON at byte {} of the header: {}", position, e.what()));
  }

 private:
  bool fail(std::string text) {
    detail = std::move(text);
    return false;
  }
  bool duplicate(std::string text) {
    reason = "DuplicateKey";
    return fail(std::move(text));
  }

  [[nodiscard]] std::string here() const {
    if (depth_ <= 1) {
      return depth_ == 0 ? "the header" : fmt::format("the entry '{}'", entry_);
    }
    if (in_metadata_) {
      return fmt::format("__metadata__ '{}'", key_);
    }
    return fmt::format("{} of tensor '{}'", key_, entry_);
  }

  bool top_level_key(const std::string& text) {
    if (text.size() > kMaxNameBytes) {
      return fail(fmt::format("a tensor's name has {} bytes, expected at most {}", text.size(),
                              kMaxNameBytes));
    }
    const auto is_control = [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    };
    if (std::any_of(text.begin(), text.end(), is_control)) {
      return fail("a tensor's name holds a control character");
    }
    if (!names_.insert(text).second) {
      return duplicate(fmt::format("the name '{}' appears twice", text));
    }
    entry_ = text;
    key_.clear();
    keys_.clear();
    in_metadata_ = text == "__metadata__";
    if (!in_metadata_) {
      if (tensors.size() >= kMaxTensors) {
        return fail(fmt::format("more than {} tensors", kMaxTensors));
      }
      tensors.push_back({text, {}, {}, {}});
    }
    return true;
  }

  /// A scalar where the format has no place for it, unless it lies in an unknown extra key.
  bool other_value(const std::string& what) {
    if (depth_ == 0) {
      return fail(fmt::format("expected a JSON object, found {}", what));
    }
    if (skip_from_ != 0 || enters_ignored()) {
      return true;
    }
    return fail(fmt::format("{} is {}", here(), what));
  }

  /// Is the value that starts now, or the one that is open, an unknown key's of a tensor?
  [[nodiscard]] bool enters_ignored() const {
    if (skip_from_ != 0) {
      return true;
    }
    return depth_ == 2 && !in_metadata_ && key_ != "dtype" && key_ != "shape" &&
           key_ != "data_offsets";
  }

  bool descend() {
    if (depth_ >= kMaxDepth) {
      return fail(fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    if (skip_from_ == 0 && enters_ignored()) {
      skip_from_ = depth_ + 1;
    }
    ++depth_;
    return true;
  }

  void ascend() {
    if (skip_from_ == depth_) {
      skip_from_ = 0;
    }
    --depth_;
  }

  int depth_ = 0;
  int skip_from_ = 0;  // depth at which an ignored value began; 0: none
  bool in_metadata_ = false;
  bool in_shape_ = false;
  std::string entry_;
  std::string key_;
  std::vector<std::string> keys_;
  std::set<std::string> names_;
};

std::uint64_t checked_bytes(const RawTensor& t, std::string_view name) {
  constexpr auto kMaxDim = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t count = 1;
  for (const std::uint64_t dim : t.shape) {
    if (__builtin_mul_overflow(count, dim, &count) || dim > kMaxDim) {
      reject(name, "ValidationOverflow",
             fmt::format("the shape of tensor '{}' has more elements than 64 bits count", t.name));
    }
  }
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(count, find_dtype(t.dtype)->bits, &bits)) {
    reject(name, "ValidationOverflow",
           fmt::format("tensor '{}' has more bits than 64 bits count", t.name));
  }
  if (bits % 8 != 0) {
    reject(name, "MisalignedSlice",
           fmt::format("tensor '{}' of {} does not fill whole bytes", t.name, t.dtype));
  }
  return bits / 8;
}

std::uint64_t header_length(std::span<const std::byte> prefix, std::uint64_t file_size,
                            std::string_view name) {
  constexpr std::string_view kLfs = "version https://git-lfs";
  if (prefix.size() >= kLfs.size() && std::memcmp(prefix.data(), kLfs.data(), kLfs.size()) == 0) {
    reject(name, "HeaderTooLarge",
           "this is a Git LFS pointer, not the weights themselves; fetch them with 'git lfs pull'");
  }
  if (file_size < 8) {
    reject(name, "HeaderTooSmall",
           fmt::format("the file has {} bytes, expected at least 8: empty or cut off", file_size));
  }
  expects(prefix.size() >= 8, "parse_safetensors_header: prefix shorter than 8 bytes");
  std::array<unsigned char, 8> bytes{};
  std::memcpy(bytes.data(), prefix.data(), 8);
  std::uint64_t n = 0;
  for (std::size_t i = 8; i-- > 0;) {
    n = n << 8U | bytes[i];
  }
  if (n > kMaxHeaderBytes) {
    reject(name, "HeaderTooLarge",
           fmt::format("the header claims {} bytes, expected at most {}: not a safetensors file", n,
                       kMaxHeaderBytes));
  }
  if (n > file_size - 8) {
    reject(name, "InvalidHeaderLength",
           fmt::format("the header claims {} bytes, the file has {} after the length: cut off, or "
                       "not a safetensors file",
                       n, file_size - 8));
  }
  return n;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> prefix,
                                           std::uint64_t file_size, std::string_view name) {
  const std::uint64_t n = header_length(prefix, file_size, name);
  expects(prefix.size() - 8 >= n, "parse_safetensors_header: prefix shorter than the header");
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()) + 8, n);
  if (!valid_utf8(text)) {
    reject(name, "InvalidHeader", "the header is not valid UTF-8");
  }
  // The JSON library takes NUL for the end of its input and skips a byte order mark.
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xEF\xBB\xBF")) {
    reject(name, "InvalidHeaderDeserialization", "the header holds a NUL or a byte order mark");
  }
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &handler)) {
    reject(name, handler.reason, handler.detail);
  }

  std::vector<RawTensor>& raw = handler.tensors;
  std::sort(raw.begin(), raw.end(), [](const RawTensor& a, const RawTensor& b) {
    return std::tie(a.offsets, a.name) < std::tie(b.offsets, b.name);
  });
  SafetensorsHeader header;
  header.metadata = std::move(handler.metadata);
  header.data_start = 8 + n;
  std::uint64_t previous_end = 0;
  for (RawTensor& t : raw) {
    const std::uint64_t begin = t.offsets[0];
    const std::uint64_t end = t.offsets[1];
    if (begin != previous_end || end < begin) {
      reject(name, "InvalidOffset",
             fmt::format("tensor '{}' lies at [{}, {}), expected to begin at {} (overlap, hole or "
                         "reversed range)",
                         t.name, begin, end, previous_end));
    }
    const std::uint64_t num_bytes = checked_bytes(t, name);
    if (end - begin != num_bytes) {
      reject(name, "TensorInvalidInfo",
             fmt::format("tensor '{}' takes {} bytes, its shape and dtype need {}", t.name,
                         end - begin, num_bytes));
    }
    previous_end = end;
    TensorInfo info{std::move(t.name), std::move(t.dtype), {}, begin, end};
    info.shape.assign(t.shape.begin(), t.shape.end());
    header.tensors.push_back(std::move(info));
  }
  const std::uint64_t room = file_size - header.data_start;
  if (previous_end != room) {
    reject(name, "MetadataIncompleteBuffer",
           previous_end > room
               ? fmt::format("cut off: {} of {} data bytes are there", room, previous_end)
               : fmt::format("{} bytes follow the last tensor", room - previous_end));
  }
  return header;
}

}  // namespace apo::model
