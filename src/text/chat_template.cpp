#include "apo/text/chat_template.hpp"

#include <algorithm>
#include <optional>

#include "chat_family.hpp"
#include "text_file.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"
#include "apo/core/sha256.hpp"

namespace apo::text {
namespace {

using nlohmann::json;

/// A JSON object of the folder; null when the file is absent.
json read_object(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return {};
  }
  json root;
  try {
    root = json::parse(read_text_file(path));
  } catch (const json::exception& error) {
    throw Error(Fault::kData, fmt::format("{}: not JSON: {}", path.string(), error.what()));
  }
  if (!root.is_object()) {
    throw Error(Fault::kData, path.string() + ": expected a JSON object");
  }
  return root;
}

json value_of(const json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object.at(key) : json();
}

/// tokenizer_config.json spells a token as a string or as {"content": ...}.
std::string token_text(const json& value) {
  const json content = value.is_object() ? value_of(value, "content") : value;
  return content.is_string() ? content.get<std::string>() : std::string();
}

/// The checkpoint's own template, wherever Hugging Face would look for it.
std::optional<std::string> find_template(const std::filesystem::path& folder, const json& config) {
  std::error_code ignored;
  const std::filesystem::path file = folder / "chat_template.jinja";
  if (std::filesystem::exists(file, ignored)) {
    return read_text_file(file);
  }
  const json value = value_of(config, "chat_template");
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_array()) {  // several named templates
    for (const json& item : value) {
      if (value_of(item, "name") == "default" && value_of(item, "template").is_string()) {
        return item.at("template").get<std::string>();
      }
    }
  }
  return std::nullopt;
}

void add_id(std::vector<std::int32_t>& ids, std::int32_t id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
    ids.push_back(id);
  }
}

void add_stop_ids(std::vector<std::int32_t>& ids, const std::filesystem::path& file) {
  const json value = value_of(read_object(file), "eos_token_id");
  const json list = value.is_array() ? value : json::array({value});
  for (const json& id : list) {
    if (id.is_null()) {
      continue;
    }
    if (!id.is_number_integer() || id < 0 || id > std::int64_t{INT32_MAX}) {
      throw Error(Fault::kData, fmt::format("{}: eos_token_id: found {}; expected an id or a list "
                                            "of ids",
                                            file.string(), id.dump()));
    }
    add_id(ids, id.get<std::int32_t>());
  }
}

/// The id of a token, from tokenizer_config.json or, slower, from the vocabulary.
std::optional<std::int32_t> find_id(const std::filesystem::path& folder, const json& config,
                                    std::string_view token) {
  const json decoder = value_of(config, "added_tokens_decoder");
  if (decoder.is_object()) {
    for (const auto& [key, value] : decoder.items()) {
      if (token_text(value) == token && !key.empty() && key.size() < 10 &&
          key.find_first_not_of("0123456789") == std::string::npos) {
        return std::stoi(key);
      }
    }
  }
  std::error_code ignored;
  if (std::filesystem::exists(folder / "tokenizer.json", ignored) ||
      std::filesystem::exists(folder / "tokenizer.json.gz", ignored)) {
    return Tokenizer::load(folder).id_of(token);
  }
  return std::nullopt;
}

TemplateFamily choose_family(const std::filesystem::path& folder, const json& config,
                             std::string_view choice) {
  if (choice != "auto") {
    const std::optional<TemplateFamily> forced = family_of_name(choice);
    if (!forced) {
      throw Error(Fault::kConfig, fmt::format("data.chat_template: found \"{}\"; expected auto, {}",
                                              choice, family_names()));
    }
    return *forced;
  }
  const std::optional<std::string> source = find_template(folder, config);
  if (!source) {
    return TemplateFamily::kPlain;
  }
  const std::string sha256 = sha256_hex(*source);
  const std::optional<TemplateFamily> known = family_of_sha256(sha256);
  if (!known) {
    throw Error(Fault::kData,
                fmt::format("{}: the checkpoint's chat template is not one that is known "
                            "(SHA-256 {}, {} bytes); set data.chat_template to {} to force one",
                            folder.string(), sha256, source->size(), family_names()));
  }
  return *known;
}

std::vector<Fragment> fragments_of(const std::vector<RenderedPart>& parts) {
  std::vector<Fragment> fragments;
  fragments.reserve(parts.size());
  for (const RenderedPart& part : parts) {
    fragments.push_back({part.text, part.control});
  }
  return fragments;
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::filesystem::path& model_dir, std::string_view choice,
                                std::string_view date) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(model_dir, ignored)) {
    throw Error(Fault::kData, model_dir.string() + ": no such folder");
  }
  const json config = read_object(model_dir / "tokenizer_config.json");
  ChatTemplate loaded;
  loaded.family_ = choose_family(model_dir, config, choice);
  loaded.date_ = date;
  loaded.end_token_ = end_of_turn(loaded.family_);
  if (loaded.family_ == TemplateFamily::kPlain) {
    loaded.end_token_ = token_text(value_of(config, "eos_token"));
  }
  if (!loaded.end_token_.empty()) {
    if (const auto id = find_id(model_dir, config, loaded.end_token_)) {
      add_id(loaded.stop_ids_, *id);
    }
  }
  add_stop_ids(loaded.stop_ids_, model_dir / "generation_config.json");
  add_stop_ids(loaded.stop_ids_, model_dir / "config.json");
  return loaded;
}

std::string_view ChatTemplate::name() const { return name_of(family_); }

std::string ChatTemplate::render_prompt(const std::vector<Turn>& turns) const {
  std::string text;
  for (const RenderedPart& part : render(family_, turns, date_)) {
    text += part.text;
  }
  return text;
}

std::vector<std::int32_t> ChatTemplate::encode_prompt(const Tokenizer& tokenizer,
                                                      const std::vector<Turn>& turns) const {
  const std::vector<RenderedPart> parts = render(family_, turns, date_);
  // Chat templates spell their own begin-of-text token; plain text gets it from the tokenizer.
  const bool add_special_tokens = family_ == TemplateFamily::kPlain;
  return tokenizer.encode_fragments(fragments_of(parts), add_special_tokens);
}

std::vector<std::int32_t> ChatTemplate::encode_response(const Tokenizer& tokenizer,
                                                        std::string_view response) const {
  const std::string_view content = shown_content(family_, response);
  if (family_ == TemplateFamily::kPlain) {
    std::vector<std::int32_t> ids = tokenizer.encode(content, ControlTokens::kAsText);
    const std::optional<std::int32_t> end =
        end_token_.empty() ? std::nullopt : tokenizer.id_of(end_token_);
    if (!end && (!end_token_.empty() || stop_ids_.empty())) {
      throw Error(Fault::kData,
                  fmt::format("plain template: the end-of-text token \"{}\" is not in the "
                              "vocabulary; expected eos_token in tokenizer_config.json, or "
                              "eos_token_id in generation_config.json or config.json",
                              end_token_));
    }
    ids.push_back(end ? *end : stop_ids_.front());
    return ids;
  }
  if (!tokenizer.id_of(end_token_)) {
    throw Error(Fault::kData, fmt::format("chat template {}: its token {} is not in the vocabulary",
                                          name(), end_token_));
  }
  const std::vector<Fragment> fragments{{content, ControlTokens::kAsText},
                                        {turn_closing(family_), ControlTokens::kParse}};
  return tokenizer.encode_fragments(fragments);
}

}  // namespace apo::text
