#include "read_bytes.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "apo/core/error.hpp"

namespace apo::data {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";

std::string read_raw(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw Error(Fault::kData, fmt::format("{}: is a folder, expected a file", path));
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw Error(Fault::kData, fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  }
  std::ostringstream out;
  out << in.rdbuf();
  if (in.bad()) {
    throw Error(Fault::kData, fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  }
  return std::move(out).str();
}

/// All members of a gzip file, one after the other.
std::string gunzip(std::string_view raw, const std::string& path) {
  if (raw.size() > std::numeric_limits<uInt>::max()) {
    throw Error(Fault::kData, fmt::format("{}: gzip files above 4 GiB are not read", path));
  }
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) {
    throw Error(Fault::kInternal, "zlib: inflateInit2 failed");
  }
  // zlib's interface is not const-correct; it does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw.data()));
  stream.avail_in = static_cast<uInt>(raw.size());
  std::string text;
  std::array<char, 65536> block{};
  int status = Z_OK;
  bool finished = false;
  while (!finished) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(block.data(), block.size() - stream.avail_out);
    if (status == Z_STREAM_END) {
      finished = stream.avail_in == 0;
      if (!finished) {
        inflateReset(&stream);
      }
    } else if (status != Z_OK) {
      break;
    }
  }
  const std::string detail = stream.msg != nullptr ? stream.msg : "the file ends early";
  inflateEnd(&stream);
  if (!finished) {
    throw Error(Fault::kData, fmt::format("{}: damaged gzip data after {} unpacked bytes: {}", path,
                                          text.size(), detail));
  }
  return text;
}

}  // namespace

FileText read_text_file(const std::string& path) {
  FileText file;
  file.raw = read_raw(path);
  if (std::string_view(file.raw).starts_with(kLfsPointer)) {
    throw Error(Fault::kData,
                fmt::format("{}: is a Git-LFS pointer ({} bytes), not the data; fetch the file "
                            "itself with 'git lfs pull'",
                            path, file.raw.size()));
  }
  file.text =
      std::string_view(file.raw).starts_with(kGzipMagic) ? gunzip(file.raw, path) : file.raw;
  if (std::string_view(file.text).starts_with(kUtf8Mark)) {
    file.text.erase(0, kUtf8Mark.size());
  }
  const std::string_view text = file.text;
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    throw Error(Fault::kData, fmt::format("{}: is UTF-16, expected UTF-8", path));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw Error(Fault::kData, fmt::format("{}: is empty, expected rows", path));
  }
  return file;
}

}  // namespace apo::data
