#include "tokenizer_file.hpp"

#include <array>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "byte_level.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"

namespace apo::text {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxId = (std::int64_t{1} << 22) - 1;  // bounds the table of decode()
constexpr std::size_t kMaxErrors = 12;

std::string shorten(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 200) {
    text.resize(197);
    text += "...";
  }
  return text;
}

const json& member(const json& object, const char* key) {
  static const json null;
  if (!object.is_object()) {
    return null;
  }
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::string type_of(const json& object) {
  const json& type = member(object, "type");
  return type.is_string() ? type.get<std::string>() : std::string();
}

bool flag(const json& object, const char* key, bool fallback) {
  const json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : fallback;
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  TokenizerFile read(const json& root) {
    if (!root.is_object()) {
      throw Error(Fault::kData, name_ + ": expected a JSON object, found " + shorten(root));
    }
    read_normalizer(member(root, "normalizer"));
    read_pre_tokenizer(member(root, "pre_tokenizer"));
    read_decoder(member(root, "decoder"));
    read_model(member(root, "model"));
    read_added_tokens(member(root, "added_tokens"));
    read_post_processor(member(root, "post_processor"));
    if (!errors_.empty()) {
      throw Error(Fault::kData, fmt::format("{}: this tokenizer is not supported:\n  {}", name_,
                                            fmt::join(errors_, "\n  ")));
    }
    return std::move(file_);
  }

 private:
  void refuse(std::string message) {
    if (errors_.size() < kMaxErrors) {
      errors_.push_back(std::move(message));
    }
  }
  void refuse(std::string_view key, const json& found, std::string_view accepted) {
    refuse(fmt::format("{}: found {}; accepted: {}", key, shorten(found), accepted));
  }

  void read_normalizer(const json& value) {
    if (value.is_null()) {
      return;
    }
    file_.normalize_nfc = type_of(value) == "NFC";
    if (!file_.normalize_nfc) {
      refuse("normalizer", value, R"(null or {"type":"NFC"})");
    }
  }

  static bool is_byte_level(const json& value, bool use_regex) {
    return type_of(value) == "ByteLevel" && !flag(value, "add_prefix_space", true) &&
           flag(value, "use_regex", true) == use_regex;
  }

  void read_pre_tokenizer(const json& value) {
    if (is_byte_level(value, true)) {
      file_.split = SplitKind::kGpt2;
      return;
    }
    const json& parts = member(value, "pretokenizers");
    if (type_of(value) == "Sequence" && parts.is_array() && parts.size() == 2) {
      if (type_of(parts[0]) == "Digits" && flag(parts[0], "individual_digits", false) &&
          is_byte_level(parts[1], true)) {
        file_.split = SplitKind::kGpt2Digits;
        return;
      }
      const json& pattern = member(member(parts[0], "pattern"), "Regex");
      if (type_of(parts[0]) == "Split" && pattern.is_string() &&
          member(parts[0], "behavior") == "Isolated" && !flag(parts[0], "invert", false) &&
          is_byte_level(parts[1], false)) {
        for (const SplitKind kind : {SplitKind::kLlama3, SplitKind::kQwen2}) {
          if (pattern.get_ref<const std::string&>() == split_pattern(kind)) {
            file_.split = kind;
            return;
          }
        }
      }
    }
    refuse("pre_tokenizer", value,
           "Sequence[Split(the regex of Llama-3 or of Qwen2, Isolated), ByteLevel(add_prefix_space "
           "false, use_regex false)], Sequence[Digits(individual_digits true), "
           "ByteLevel(add_prefix_space false, use_regex true)], or ByteLevel(add_prefix_space "
           "false, use_regex true)");
  }

  void read_decoder(const json& value) {
    if (type_of(value) != "ByteLevel") {
      refuse("decoder", value, "ByteLevel");
    }
  }

  void read_model(const json& model) {
    if (type_of(model) != "BPE") {
      refuse("model.type", member(model, "type"), "\"BPE\"");
      return;
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json& value = member(model, key);
      if (!value.is_null() && value != "") {
        refuse(std::string("model.") + key, value, "null or \"\"");
      }
    }
    const json& dropout = member(model, "dropout");
    if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0.0)) {
      refuse("model.dropout", dropout, "null or 0");
    }
    file_.ignore_merges = flag(model, "ignore_merges", false);
    read_vocabulary(member(model, "vocab"));
    read_merges(member(model, "merges"));
    read_fallbacks(model);
  }

  std::optional<std::int32_t> read_id(const std::string& what, const json& value) {
    if (!value.is_number_integer() || value < 0 || value > kMaxId) {
      refuse(what, value, fmt::format("an id from 0 to {}", kMaxId));
      return std::nullopt;
    }
    return value.get<std::int32_t>();
  }

  void read_vocabulary(const json& vocab) {
    if (!vocab.is_object() || vocab.empty()) {
      refuse("model.vocab", vocab, "an object of token -> id");
      return;
    }
    file_.entries.reserve(vocab.size());
    owner_of_id_.reserve(vocab.size());
    for (const auto& [entry, value] : vocab.items()) {
      const auto id = read_id(fmt::format("model.vocab[\"{}\"]", entry), value);
      if (!id) {
        continue;
      }
      file_.entries.emplace(entry, *id);
      const auto [owner, inserted] = owner_of_id_.emplace(*id, entry);
      if (!inserted) {
        refuse(fmt::format("model.vocab: \"{}\" and \"{}\" have the same id {}", owner->second,
                           entry, *id));
      }
    }
  }

  void read_merges(const json& merges) {
    if (!merges.is_array()) {
      refuse("model.merges", merges, R"(a list of "a b" strings or ["a", "b"] pairs)");
      return;
    }
    file_.merges.reserve(merges.size());
    for (std::size_t row = 0; row < merges.size(); ++row) {
      read_merge(row, merges[row]);
    }
    if (file_.merges.empty()) {
      refuse("model.merges: no merge at all; accepted: at least one");
    }
  }

  void read_merge(std::size_t row, const json& merge) {
    std::string left;
    std::string right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) {
        return;
      }
      const std::size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
    }
    if (left.empty() || right.empty()) {
      refuse(fmt::format("model.merges[{}]", row), merge, R"("a b" with one space, or ["a", "b"])");
      return;
    }
    std::array<std::int32_t, 3> ids{};
    const std::array<std::string, 3> entries{left, right, left + right};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto found = file_.entries.find(entries[i]);
      if (found == file_.entries.end()) {
        refuse(fmt::format("model.merges[{}]: \"{}\" is not in model.vocab", row, entries[i]));
        return;
      }
      ids[i] = found->second;
    }
    file_.merges.push_back({ids[0], ids[1], ids[2]});
  }

  /// unk_token and byte_fallback act only where a byte symbol is missing.
  void read_fallbacks(const json& model) {
    const json& unknown = member(model, "unk_token");
    const bool has_unknown = unknown.is_string() && unknown != "";
    if (!has_unknown && !flag(model, "byte_fallback", false)) {
      return;
    }
    for (int byte = 0; byte < 256; ++byte) {
      const char character = static_cast<char>(byte);
      if (!file_.entries.contains(entry_of_bytes({&character, 1}))) {
        refuse(
            fmt::format("model: unk_token {} and byte_fallback {} with byte 0x{:02X} missing "
                        "from the vocabulary; accepted: neither, or all 256 bytes present",
                        shorten(unknown), flag(model, "byte_fallback", false), byte));
        return;
      }
    }
  }

  void read_added_tokens(const json& tokens) {
    if (tokens.is_null()) {
      return;
    }
    if (!tokens.is_array()) {
      refuse("added_tokens", tokens, "a list");
      return;
    }
    std::set<std::string> contents;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const json& token = tokens[row];
      const std::string where = fmt::format("added_tokens[{}]", row);
      const json& content = member(token, "content");
      if (!content.is_string() || content == "") {
        refuse(where + ".content", content, "a string that is not empty");
        continue;
      }
      const auto id = read_id(where + ".id", member(token, "id"));
      if (!id) {
        continue;
      }
      AddedToken added;
      added.id = *id;
      added.content = content.get<std::string>();
      added.single_word = flag(token, "single_word", false);
      added.lstrip = flag(token, "lstrip", false);
      added.rstrip = flag(token, "rstrip", false);
      added.normalized = flag(token, "normalized", true);
      added.special = flag(token, "special", false);
      if (!contents.insert(added.content).second) {
        refuse(fmt::format("{}: \"{}\" is listed twice", where, added.content));
        continue;
      }
      const auto entry = file_.entries.find(added.content);
      if (entry != file_.entries.end() && entry->second != added.id) {
        refuse(fmt::format("{}: \"{}\" has id {}, but {} in model.vocab", where, added.content,
                           added.id, entry->second));
      }
      const auto [owner, inserted] = owner_of_id_.emplace(added.id, added.content);
      if (!inserted && owner->second != added.content) {
        refuse(fmt::format("{}: \"{}\" has id {}, which belongs to \"{}\"", where, added.content,
                           added.id, owner->second));
      }
      file_.added_tokens.push_back(std::move(added));
    }
  }

  void read_post_processor(const json& value) {
    if (value.is_null() || type_of(value) == "ByteLevel") {
      return;
    }
    if (type_of(value) == "Sequence" && member(value, "processors").is_array()) {
      for (const json& part : member(value, "processors")) {
        read_post_processor(part);
      }
      return;
    }
    if (type_of(value) == "TemplateProcessing" && read_template(value)) {
      return;
    }
    refuse("post_processor", value,
           "null, ByteLevel, TemplateProcessing that puts special tokens in front of $A, or a "
           "Sequence of these");
  }

  bool read_template(const json& value) {
    const json& single = member(value, "single");
    if (!single.is_array() || single.empty() ||
        member(member(single.back(), "Sequence"), "id") != "A") {
      return false;
    }
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i + 1 < single.size(); ++i) {
      const json& name = member(member(single[i], "SpecialToken"), "id");
      if (!name.is_string()) {
        return false;
      }
      const json& numbers = member(
          member(member(value, "special_tokens"), name.get_ref<const std::string&>().c_str()),
          "ids");
      if (!numbers.is_array()) {
        return false;
      }
      for (const json& number : numbers) {
        const auto id = read_id("post_processor.special_tokens", number);
        if (id && !owner_of_id_.contains(*id)) {
          refuse(fmt::format("post_processor: id {} of {} is not in the vocabulary", *id,
                             shorten(name)));
        }
        ids.push_back(id.value_or(0));
      }
    }
    file_.prefix.insert(file_.prefix.begin(), ids.begin(), ids.end());
    return true;
  }

  std::string name_;
  TokenizerFile file_;
  std::unordered_map<std::int32_t, std::string> owner_of_id_;
  std::vector<std::string> errors_;
};

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view json_text, const std::string& name) {
  json root;
  try {
    root = json::parse(json_text);
  } catch (const json::exception& error) {
    throw Error(Fault::kData, fmt::format("{}: not JSON: {}", name, error.what()));
  }
  return Reader(name).read(root);
}

}  // namespace apo::text
