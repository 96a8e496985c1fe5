#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apo/data/demo_domain.hpp"
#include "apo/text/chat_template.hpp"
#include "apo/text/tokenizer.hpp"

namespace apo::data::demo {
namespace {

namespace fs = std::filesystem;

class DemoTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("apo_demo_tokenizer_" + std::to_string(::getpid()));
    fs::create_directories(dir_);
    std::ofstream(dir_ / "tokenizer.json") << tokenizer_json();
    std::ofstream(dir_ / "tokenizer_config.json") << tokenizer_config_json();
  }
  void TearDown() override { fs::remove_all(dir_); }

  fs::path dir_;
};

std::size_t words_and_marks(const std::string& text) {
  std::size_t count = 0;
  bool in_word = false;
  for (const char c : text) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    count += (letter && !in_word) || (!letter && c != ' ') ? 1 : 0;
    in_word = letter;
  }
  return count;
}

TEST_F(DemoTokenizer, EveryWordOfTheCorpusIsOneToken) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(dir_);
  EXPECT_EQ(tokenizer.kind(), "gpt2");
  EXPECT_EQ(tokenizer.vocabulary_size(), tokenizer_size());
  EXPECT_EQ(tokenizer.max_id(), tokenizer_size() - 1);
  std::set<std::int32_t> used;
  for (std::uint64_t row = 0; row < 5000; ++row) {
    const CorpusLine line = corpus_line(11, 0, row);
    for (const std::string& text : {line.prompt, line.answer}) {
      const auto ids = tokenizer.encode(text, text::ControlTokens::kAsText);
      EXPECT_EQ(ids.size(), words_and_marks(text)) << text;
      EXPECT_EQ(tokenizer.decode(ids), text);
      used.insert(ids.begin(), ids.end());
    }
  }
  // every word of the grammar occurs, except line-start forms of sentences that never start a line
  EXPECT_GT(used.size(), static_cast<std::size_t>(tokenizer_size()) - 257 - 10);
}

TEST_F(DemoTokenizer, PlainTemplateEndsWithEndOfText) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(dir_);
  const text::ChatTemplate chat = text::ChatTemplate::load(dir_, "auto", "");
  EXPECT_EQ(chat.family(), text::TemplateFamily::kPlain);
  EXPECT_EQ(chat.stop_ids(), std::vector<std::int32_t>{0});
  const auto answer = chat.encode_response(tokenizer, "First rinse the lid.");
  ASSERT_EQ(answer.size(), 6U);
  EXPECT_EQ(answer.back(), 0);
  const std::string prompt = render(Prompt{});
  EXPECT_EQ(chat.encode_prompt(tokenizer, {{"user", prompt}}).size(), words_and_marks(prompt) + 1);
}

TEST_F(DemoTokenizer, OtherTextSurvivesAsBytes) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(dir_);
  for (const std::string text : {"Größe 42 —日本語\n\n  x", "<|endoftext|>", " apple"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, text::ControlTokens::kAsText)), text);
  }
  EXPECT_EQ(tokenizer.encode("<|endoftext|>", text::ControlTokens::kParse),
            std::vector<std::int32_t>{0});
}

}  // namespace
}  // namespace apo::data::demo
