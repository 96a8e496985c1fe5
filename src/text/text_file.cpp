#include "text_file.hpp"

#include <memory>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "apo/core/error.hpp"

namespace apo::text {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{512} << 20;

}  // namespace

std::string read_text_file(const std::filesystem::path& path) {
  // gzread passes plain files through, so one reader serves both.
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    throw Error(Fault::kData, path.string() + ": cannot be opened");
  }
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> closer(file, gzclose);
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 18);
  for (;;) {
    const int count = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()));
    if (count < 0) {
      int code = 0;
      throw Error(Fault::kData,
                  fmt::format("{}: cannot be read: {}", path.string(), gzerror(file, &code)));
    }
    if (count == 0) {
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kMaxFileBytes) {
      throw Error(Fault::kData, path.string() + ": larger than 512 MiB");
    }
  }
  // A stream that was cut short ends without an error from gzread.
  int code = Z_OK;
  const char* message = gzerror(file, &code);
  if (code != Z_OK && code != Z_STREAM_END) {
    throw Error(Fault::kData, fmt::format("{}: damaged: {}", path.string(), message));
  }
  return text;
}

std::filesystem::path find_tokenizer_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    if (!std::filesystem::exists(path, ignored)) {
      throw Error(Fault::kData, path.string() + ": no such file or folder");
    }
    return path;
  }
  for (const char* name : {"tokenizer.json", "tokenizer.json.gz"}) {
    if (std::filesystem::exists(path / name, ignored)) {
      return path / name;
    }
  }
  throw Error(Fault::kData,
              path.string() + ": the folder has neither tokenizer.json nor tokenizer.json.gz");
}

}  // namespace apo::text
