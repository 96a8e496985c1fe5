#include "row_parser.hpp"

#include "dialogue.hpp"
#include "json_text.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace apo::data {
namespace {

using nlohmann::json;
using Turns = std::vector<text::Turn>;

const json& member(const json& row, const char* field, const char* wanted) {
  const auto found = row.find(field);
  if (found == row.end() || found->is_null()) {
    throw RowProblem("missing field", field, found == row.end() ? "nothing" : "null", wanted);
  }
  return *found;
}

std::string read_text(const json& value, const std::string& field, const char* wanted) {
  if (!value.is_string()) {
    throw RowProblem("not a string", field, describe(value), wanted);
  }
  std::string text = value.get<std::string>();
  const std::size_t nul = text.find('\0');
  if (nul != std::string::npos) {
    throw RowProblem("NUL byte", field, fmt::format("a NUL byte at position {}", nul), wanted);
  }
  return text;
}

Turns read_messages(const json& list, const std::string& field) {
  Turns turns;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", field, i);
    const json& message = list[i];
    if (!message.is_object() || !message.contains("role") || !message.contains("content")) {
      throw RowProblem("not a message", here, describe(message), "an object {role, content}");
    }
    text::Turn turn;
    turn.role = read_text(message.at("role"), here + ".role", "a role");
    if (turn.role != "system" && turn.role != "user" && turn.role != "assistant") {
      throw RowProblem("unknown role", here + ".role", describe(message.at("role")),
                       "system, user or assistant");
    }
    turn.content = read_text(message.at("content"), here + ".content", "text");
    turns.push_back(std::move(turn));
  }
  return turns;
}

/// A prompt: at most one system message, then user and assistant in turn, user first and last.
void check_prompt(const Turns& turns, const std::string& field) {
  if (turns.empty()) {
    throw RowProblem("empty prompt", field, "no message", "at least one user message");
  }
  const std::size_t first = turns.front().role == "system" ? 1 : 0;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (i >= first) {
      const char* role = (i - first) % 2 == 0 ? "user" : "assistant";
      if (turns[i].role != role) {
        throw RowProblem("roles do not alternate", fmt::format("{}, message {}", field, i + 1),
                         turns[i].role, role);
      }
    }
    if (trimmed(turns[i].content).empty()) {
      throw RowProblem(turns.size() == 1 ? "empty prompt" : "empty message",
                       fmt::format("{}, message {}", field, i + 1), "no text", "text");
    }
  }
  if (turns.back().role != "user") {
    throw RowProblem("prompt does not end with the user", field,
                     fmt::format("a last message by {}", turns.back().role),
                     "a last message by user");
  }
}

/// A conversation split before its last assistant turn.
struct Split {
  Turns prompt;
  std::string response;
};

Split split_conversation(Turns turns, const std::string& field) {
  if (turns.empty() || turns.back().role != "assistant") {
    throw RowProblem("no last assistant turn", field,
                     turns.empty() ? "no message" : "a last turn by " + turns.back().role,
                     "a last turn by assistant");
  }
  Split split;
  split.response = std::move(turns.back().content);
  turns.pop_back();
  split.prompt = std::move(turns);
  return split;
}

/// A chosen or rejected entry of any form, as a conversation; plain text is a single turn.
Split read_response(const json& row, const char* field, TextForm form) {
  const json& value = member(row, field, "a response");
  if (value.is_array() && form != TextForm::kStrings) {
    return split_conversation(read_messages(value, field), field);
  }
  std::string text = read_text(
      value, field, form == TextForm::kStrings ? "a string" : "a string or a list of messages");
  if (is_dialogue(text)) {
    return split_conversation(read_dialogue(text), field);
  }
  return {{}, std::move(text)};
}

Turns read_prompt(const json& value, TextForm form) {
  if (value.is_array() && form != TextForm::kStrings) {
    return read_messages(value, "prompt");
  }
  if (form == TextForm::kMessages) {
    throw RowProblem("not a message list", "prompt", describe(value), "a list of messages");
  }
  std::string text = read_text(
      value, "prompt", form == TextForm::kStrings ? "a string" : "a string or a list of messages");
  if (!is_dialogue(text)) {
    return {{"user", std::move(text)}};
  }
  Turns turns = read_dialogue(text);
  if (turns.back().role == "assistant" && turns.back().content.empty()) {
    turns.pop_back();  // the header that asks for the response
  }
  return turns;
}

/// Shape 4: a conversation that repeats the prompt is stripped of it; never trained twice.
void strip_repeat(Split& split, const Turns& prompt, const char* field) {
  if (!split.prompt.empty() && split.prompt != prompt) {
    throw RowProblem("prompt repeated differently", field,
                     fmt::format("a conversation whose first {} messages are not the prompt",
                                 split.prompt.size()),
                     "the response alone, or the prompt repeated exactly");
  }
  split.prompt.clear();
}

void read_owner(const json& row, PreferencePair& pair) {
  if (const auto client = row.find("client"); client != row.end() && !client->is_null()) {
    if (client->is_number_integer()) {
      pair.client = client->dump();
    } else {
      pair.client = read_text(*client, "client", "a name, or null");
      if (trimmed(pair.client).empty()) {
        throw RowProblem("empty client", "client", "an empty name", "a name, or null");
      }
    }
  }
  if (const auto split = row.find("split"); split != row.end() && !split->is_null()) {
    constexpr const char* kWanted = "train, adapt or evaluate";
    const std::string name = read_text(*split, "split", kWanted);
    if (name == "train") {
      pair.split = RowSplit::kTrain;
    } else if (name == "adapt") {
      pair.split = RowSplit::kAdapt;
    } else if (name == "evaluate") {
      pair.split = RowSplit::kEvaluate;
    } else {
      throw RowProblem("unknown split", "split", describe(*split), kWanted);
    }
  }
}

void check_responses(const PreferencePair& pair) {
  for (const auto& [field, text] :
       {std::pair{"chosen", &pair.chosen}, std::pair{"rejected", &pair.rejected}}) {
    if (trimmed(*text).empty()) {
      throw RowProblem("empty response", field, text->empty() ? "no text" : "only white space",
                       "a response");
    }
  }
  if (pair.chosen == pair.rejected) {
    throw RowProblem("equal responses", "rejected", "the same text as in chosen",
                     "another response");
  }
}

}  // namespace

std::string read_objective(const json& row, const std::vector<std::string>& objectives) {
  const auto found = row.find("objective");
  if (found == row.end() || found->is_null()) {
    if (objectives.size() == 1) {
      return objectives.front();
    }
    throw RowProblem("missing field", "objective", found == row.end() ? "nothing" : "null",
                     fmt::format("one of {} (only a configuration with one objective may leave "
                                 "it out)",
                                 fmt::join(objectives, ", ")));
  }
  return read_text(*found, "objective", "a name");
}

PreferencePair parse_row(const json& row, RowShape shape, TextForm form) {
  PreferencePair pair;
  read_owner(row, pair);
  if (shape == RowShape::kHhRlhf) {
    for (const char* field : {"chosen", "rejected"}) {
      const std::string text = read_text(member(row, field, "a dialogue"), field, "a dialogue");
      if (!is_dialogue(text)) {
        throw RowProblem("not a dialogue", field, describe(row.at(field)),
                         "text that begins with '\\n\\nHuman:'");
      }
    }
  }
  Split chosen = read_response(row, "chosen", form);
  Split rejected = read_response(row, "rejected", form);
  const auto prompt = row.find("prompt");
  if (prompt != row.end() && !prompt->is_null()) {
    pair.prompt = read_prompt(*prompt, form);
    check_prompt(pair.prompt, "prompt");
    strip_repeat(chosen, pair.prompt, "chosen");
    strip_repeat(rejected, pair.prompt, "rejected");
  } else {
    if (chosen.prompt.empty() || rejected.prompt.empty()) {
      throw RowProblem("missing field", "prompt", "nothing, and responses without their dialogue",
                       "a prompt");
    }
    if (chosen.prompt != rejected.prompt) {
      throw RowProblem("different dialogues", "rejected",
                       "another dialogue than chosen before the last assistant turn",
                       "the same dialogue");
    }
    pair.prompt = std::move(chosen.prompt);
    check_prompt(pair.prompt, shape == RowShape::kHhRlhf ? "chosen (dialogue)" : "chosen");
  }
  pair.chosen = std::move(chosen.response);
  pair.rejected = std::move(rejected.response);
  check_responses(pair);
  return pair;
}

}  // namespace apo::data
