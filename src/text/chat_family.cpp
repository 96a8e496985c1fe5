#include "chat_family.hpp"

#include <utility>

#include "utf8.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::text {
namespace {

struct KnownTemplate {
  std::string_view sha256;
  TemplateFamily family;
};

/// Templates whose rendering was compared with Jinja's (tests/oracles/chat_template_parity.py and
/// the golden texts of the unit test).
constexpr std::array kKnownTemplates{
    // Llama-3 base and Instruct tokenizers of the first release: always open the assistant's turn
    KnownTemplate{"b48c47f6443892716176eb200bf4ef108f64e06ca26ed0fa8ebc0a4b3992fcb2",
                  TemplateFamily::kLlama3},
    // Llama-3 Instruct with add_generation_prompt; also the first Llama-3.1 tokenizers
    KnownTemplate{"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122",
                  TemplateFamily::kLlama3},
    // Llama-3.1 Instruct
    KnownTemplate{"e10ca381b1ccc5cf9db52e371f3b6651576caee0a630b452e2816b2d404d4b65",
                  TemplateFamily::kLlama3_1},
    // Llama-3.2 Instruct
    KnownTemplate{"5816fce10444e03c2e9ee1ef8a4a1ea61ae7e69e438613f3b17b69d0426223a4",
                  TemplateFamily::kLlama3_1},
    // Qwen2.5 Instruct
    KnownTemplate{"cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",
                  TemplateFamily::kQwen2},
    // SmolLM2 Instruct
    KnownTemplate{"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
                  TemplateFamily::kSmolLm2},
};

constexpr std::string_view kQwen2System =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr std::string_view kSmolLm2System =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

/// White space of Python's str.strip(), which Jinja's trim calls.
bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view trim(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = next_code_point(text, 0);
    if (!step.well_formed || !is_python_space(step.code_point)) {
      break;
    }
    text.remove_prefix(step.num_bytes);
  }
  while (!text.empty()) {
    std::size_t start = text.size() - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
      --start;
    }
    const Utf8Step step = next_code_point(text, start);
    if (!step.well_formed || start + step.num_bytes != text.size() ||
        !is_python_space(step.code_point)) {
      break;
    }
    text = text.substr(0, start);
  }
  return text;
}

/// Joins neighbours of one kind, so that the parts alternate.
class PartList {
 public:
  void own(std::string_view text) { append(text, ControlTokens::kParse); }
  void quote(std::string_view text) { append(text, ControlTokens::kAsText); }
  std::vector<RenderedPart> take() { return std::move(parts_); }

 private:
  void append(std::string_view text, ControlTokens control) {
    if (text.empty()) {
      return;
    }
    if (parts_.empty() || parts_.back().control != control) {
      parts_.push_back({std::string(), control});
    }
    parts_.back().text += text;
  }
  std::vector<RenderedPart> parts_;
};

void check(const std::vector<Turn>& turns) {
  if (turns.empty()) {
    throw Error(Fault::kData, "a conversation needs at least one message, found none");
  }
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::string& role = turns[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      throw Error(Fault::kData, fmt::format("message {} of a conversation: found role \"{}\"; "
                                            "expected system, user or assistant",
                                            i, role));
    }
  }
}

void render_llama(PartList& parts, const std::vector<Turn>& turns, bool system_block,
                  const std::string& date) {
  const auto open = [&](std::string_view role) {
    parts.own(fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role));
  };
  const auto show = [&](const Turn& turn) {
    parts.quote(trim(turn.content));
    parts.own("<|eot_id|>");
  };
  parts.own("<|begin_of_text|>");
  std::size_t next = 0;
  if (system_block) {
    open("system");
    parts.own(fmt::format("Cutting Knowledge Date: December 2023\nToday Date: {}\n\n", date));
    if (turns[0].role == "system") {
      show(turns[next++]);
    } else {
      parts.own("<|eot_id|>");
    }
  }
  for (; next < turns.size(); ++next) {
    open(turns[next].role);
    show(turns[next]);
  }
  open("assistant");
}

void render_chatml(PartList& parts, const std::vector<Turn>& turns,
                   std::string_view default_system) {
  if (turns[0].role != "system") {
    parts.own(fmt::format("<|im_start|>system\n{}<|im_end|>\n", default_system));
  }
  for (const Turn& turn : turns) {
    parts.own(fmt::format("<|im_start|>{}\n", turn.role));
    parts.quote(turn.content);
    parts.own("<|im_end|>\n");
  }
  parts.own("<|im_start|>assistant\n");
}

}  // namespace

std::string_view name_of(TemplateFamily family) {
  switch (family) {
    case TemplateFamily::kLlama3:
      return "llama3";
    case TemplateFamily::kLlama3_1:
      return "llama3_1";
    case TemplateFamily::kQwen2:
      return "qwen2";
    case TemplateFamily::kSmolLm2:
      return "smollm2";
    case TemplateFamily::kPlain:
      break;
  }
  return "plain";
}

std::string family_names() {
  std::string names;
  for (std::size_t i = 0; i < kAllFamilies.size(); ++i) {
    names += i == 0 ? "" : i + 1 == kAllFamilies.size() ? " or " : ", ";
    names += name_of(kAllFamilies[i]);
  }
  return names;
}

std::optional<TemplateFamily> family_of_name(std::string_view name) {
  for (const TemplateFamily family : kAllFamilies) {
    if (name_of(family) == name) {
      return family;
    }
  }
  return std::nullopt;
}

std::optional<TemplateFamily> family_of_sha256(std::string_view sha256) {
  for (const KnownTemplate& known : kKnownTemplates) {
    if (known.sha256 == sha256) {
      return known.family;
    }
  }
  return std::nullopt;
}

std::string_view end_of_turn(TemplateFamily family) {
  switch (family) {
    case TemplateFamily::kLlama3:
    case TemplateFamily::kLlama3_1:
      return "<|eot_id|>";
    case TemplateFamily::kQwen2:
    case TemplateFamily::kSmolLm2:
      return "<|im_end|>";
    case TemplateFamily::kPlain:
      break;
  }
  return "";
}

std::string_view turn_closing(TemplateFamily family) {
  const bool chatml = family == TemplateFamily::kQwen2 || family == TemplateFamily::kSmolLm2;
  return chatml ? "<|im_end|>\n" : end_of_turn(family);
}

std::string_view shown_content(TemplateFamily family, std::string_view content) {
  const bool llama = family == TemplateFamily::kLlama3 || family == TemplateFamily::kLlama3_1;
  return llama ? trim(content) : content;
}

std::vector<RenderedPart> render(TemplateFamily family, const std::vector<Turn>& turns,
                                 const std::string& date) {
  check(turns);
  PartList parts;
  switch (family) {
    case TemplateFamily::kLlama3:
      render_llama(parts, turns, false, date);
      break;
    case TemplateFamily::kLlama3_1:
      render_llama(parts, turns, true, date);
      break;
    case TemplateFamily::kQwen2:
      render_chatml(parts, turns, kQwen2System);
      break;
    case TemplateFamily::kSmolLm2:
      render_chatml(parts, turns, kSmolLm2System);
      break;
    case TemplateFamily::kPlain:
      for (const Turn& turn : turns) {
        parts.quote(turn.content);
        parts.quote("\n");
      }
      break;
  }
  return parts.take();
}

}  // namespace apo::text
