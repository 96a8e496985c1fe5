#include <map>

#include <nlohmann/json.hpp>

#include "apo/data/demo_domain.hpp"

namespace apo::data::demo {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEndOfText = "<|endoftext|>";

std::string utf8(int code_point) {  // below U+0800 is all that the byte symbols need
  std::string text;
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else {
    text += static_cast<char>(0xC0 | (code_point >> 6));
    text += static_cast<char>(0x80 | (code_point & 0x3F));
  }
  return text;
}

/// GPT-2's symbol of every byte (spec llm.md, section 5.2): printable bytes stand for themselves,
/// the others for U+0100, U+0101, ... in increasing order. In GPT-2's id order.
struct ByteSymbols {
  std::array<std::string, 256> of_byte;
  std::vector<std::string> ordered;
};

ByteSymbols byte_symbols() {
  ByteSymbols symbols;
  std::vector<std::string> others;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    std::string symbol = utf8(printable ? byte : 0x100 + static_cast<int>(others.size()));
    (printable ? symbols.ordered : others).push_back(symbol);
    symbols.of_byte[static_cast<std::size_t>(byte)] = std::move(symbol);
  }
  symbols.ordered.insert(symbols.ordered.end(), others.begin(), others.end());
  return symbols;
}

Json byte_level(bool add_prefix_space) {
  return Json{{"type", "ByteLevel"},
              {"add_prefix_space", add_prefix_space},
              {"trim_offsets", true},
              {"use_regex", true}};
}

}  // namespace

std::string tokenizer_json() {
  const ByteSymbols symbols = byte_symbols();
  Json vocabulary = Json::object();
  int id = 0;
  vocabulary[kEndOfText] = id++;
  for (const std::string& symbol : symbols.ordered) {
    vocabulary[symbol] = id++;
  }
  for (const std::string& piece : word_pieces()) {
    std::string token;
    for (const char c : piece) {
      token += symbols.of_byte[static_cast<unsigned char>(c)];
    }
    vocabulary[token] = id++;
  }
  // Words are found whole (ignore_merges); merges only matter for text outside the grammar. One is
  // there because loaders take an empty list for a file that they failed to understand.
  const std::string space = symbols.of_byte[' '];
  const Json merges = Json::array({Json::array({space, "a"})});

  Json model{{"type", "BPE"},
             {"dropout", nullptr},
             {"unk_token", nullptr},
             {"continuing_subword_prefix", nullptr},
             {"end_of_word_suffix", nullptr},
             {"fuse_unk", false},
             {"byte_fallback", false},
             {"ignore_merges", true},
             {"vocab", std::move(vocabulary)},
             {"merges", merges}};
  Json end_of_text{{"id", 0},         {"content", kEndOfText}, {"single_word", false},
                   {"lstrip", false}, {"rstrip", false},       {"normalized", false},
                   {"special", true}};
  const Json file{
      {"version", "1.0"},          {"truncation", nullptr},
      {"padding", nullptr},        {"added_tokens", Json::array({std::move(end_of_text)})},
      {"normalizer", nullptr},     {"pre_tokenizer", byte_level(false)},
      {"post_processor", nullptr}, {"decoder", byte_level(true)},
      {"model", std::move(model)}};
  return file.dump(1) + "\n";
}

std::string tokenizer_config_json() {
  const Json file{{"add_prefix_space", false},
                  {"bos_token", kEndOfText},
                  {"clean_up_tokenization_spaces", false},
                  {"eos_token", kEndOfText},
                  {"model_max_length", 128},
                  {"pad_token", kEndOfText},
                  {"tokenizer_class", "PreTrainedTokenizerFast"}};
  return file.dump(2) + "\n";
}

int tokenizer_size() { return 1 + 256 + static_cast<int>(word_pieces().size()); }

}  // namespace apo::data::demo
