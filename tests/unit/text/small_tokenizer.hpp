#pragma once

/// @file
/// A small tokenizer.json and scratch folders for the tests of the text room.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <unistd.h>

namespace apo::text::testing {

/// A folder that is removed at the end of the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "apo_text_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("mkdtemp failed");
    }
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// The character that stands for a byte in byte-level vocabularies, as UTF-8.
inline std::string symbol(int byte) {
  const bool printable =
      (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  int code = byte;
  if (!printable) {
    code = 0x100;
    for (int lower = 0; lower < byte; ++lower) {
      code += (lower >= 0x21 && lower <= 0x7E) || (lower >= 0xA1 && lower <= 0xAC) || lower >= 0xAE
                  ? 0
                  : 1;
    }
  }
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

inline nlohmann::json added(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

/// GPT-2 kind: byte b has id b, "he" 256, "ll" 257, "hell" 258, "hello" 259; control tokens
/// <|end|> 260 and <|bos|> 261, and <think> 262, which is not special.
inline nlohmann::json small_tokenizer() {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[symbol(byte)] = byte;
  }
  int id = 256;
  for (const char* entry : {"he", "ll", "hell", "hello"}) {
    vocab[entry] = id++;
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", true}};
  return {{"version", "1.0"},
          {"added_tokens",
           {added(260, "<|end|>"), added(261, "<|bos|>"), added(262, "<think>", false)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", {"h e", "l l", {"he", "ll"}, "hell o"}}}}};
}

inline std::filesystem::path shared_folder() {
  return std::filesystem::path(APO_SOURCE_DIR) / ".." / "shared";
}

}  // namespace apo::text::testing
