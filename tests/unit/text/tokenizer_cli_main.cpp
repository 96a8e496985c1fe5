/// @file
/// The executable that the Python oracles talk to: texts, ids and conversations as JSON lines.

#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/token_lines.hpp"
#include "apo/text/tokenizer.hpp"

namespace {

using namespace apo::text;

/// Conversations, [[role, content], ...] a line -> {"text", "ids", "response_ids"}.
void render_lines(const Tokenizer& tokenizer, const ChatTemplate& chat, std::istream& in,
                  std::ostream& out) {
  for (std::string line; std::getline(in, line);) {
    std::vector<Turn> turns;
    for (const auto& item : nlohmann::json::parse(line)) {
      turns.push_back({item.at(0).get<std::string>(), item.at(1).get<std::string>()});
    }
    nlohmann::json result;
    result["text"] = chat.render_prompt(turns);
    result["ids"] = chat.encode_prompt(tokenizer, turns);
    result["response_ids"] = chat.encode_response(tokenizer, turns.back().content);
    out << result.dump() << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::cerr << "usage: text_tokenizer_cli encode|encode-text|encode-special|decode|decode-all "
                 "TOKENIZER < JSONL, or chat FOLDER FAMILY DATE\n";
    return 64;
  }
  try {
    const std::string& action = arguments[0];
    const Tokenizer tokenizer = Tokenizer::load(arguments[1]);
    LineOptions options;
    options.format = LineFormat::kJsonl;
    if (action == "chat" && arguments.size() == 4) {
      render_lines(tokenizer, ChatTemplate::load(arguments[1], arguments[2], arguments[3]),
                   std::cin, std::cout);
    } else if (action == "encode" || action == "encode-text" || action == "encode-special") {
      options.control = action == "encode-text" ? ControlTokens::kAsText : ControlTokens::kParse;
      options.add_special_tokens = action == "encode-special";
      encode_lines(tokenizer, options, std::cin, std::cout);
      std::cerr << "dropped " << tokenizer.dropped_symbols() << '\n';
    } else if (action == "decode" || action == "decode-all") {
      options.skip_special_tokens = action == "decode";
      decode_lines(tokenizer, options, std::cin, std::cout);
    } else {
      std::cerr << "unknown action " << action << '\n';
      return 64;
    }
  } catch (const apo::Error& error) {
    std::cerr << error.what() << '\n';
    return apo::exit_code(error.fault());
  }
  return 0;
}
