/// Prints texts and their ids, one JSON object per line: demo_tokenizer_probe MODEL_DIR

#include <iostream>

#include <nlohmann/json.hpp>

#include "apo/data/demo_domain.hpp"
#include "apo/text/tokenizer.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    return 64;
  }
  const auto tokenizer = apo::text::Tokenizer::load(argv[1]);
  const auto print = [&](const std::string& text, bool of_the_grammar) {
    const auto ids = tokenizer.encode(text, apo::text::ControlTokens::kParse);
    std::cout << nlohmann::json{{"text", text}, {"ids", ids}, {"grammar", of_the_grammar}}.dump()
              << '\n';
  };
  for (std::uint64_t row = 0; row < 3000; ++row) {
    const auto line = apo::data::demo::corpus_line(5, 1, row);
    print(line.prompt, true);
    print(line.answer, true);
    print(line.prompt + "\n" + line.answer + "<|endoftext|>", false);
  }
  for (const char* text :
       {"", " apple", "a  b\n\n c ", "Größe 42 — 日本語 \U0001F600", "it's <|endoftext|> x"}) {
    print(text, false);
  }
  return 0;
}
