// Published and recomputed ids on real vocabularies (spec llm.md, section 5.5).

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "small_tokenizer.hpp"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apo/text/tokenizer.hpp"

namespace apo::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

class TokenizerVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto spec = testing::shared_folder() / "spec" / "llm-vectors.json";
    if (!std::filesystem::exists(spec) ||
        !std::filesystem::exists(testing::shared_folder() / "data" / "tokenizers")) {
      GTEST_SKIP() << "no test data: " << spec << " or data/tokenizers is absent";
    }
    vectors_ = json::parse(std::ifstream(spec)).at("tokenizer");
  }

  static const Tokenizer& real(const std::string& name) {
    static std::map<std::string, Tokenizer> loaded;
    const auto found = loaded.find(name);
    return found != loaded.end() ? found->second
                                 : loaded
                                       .emplace(name, Tokenizer::load(testing::shared_folder() /
                                                                      "data" / "tokenizers" / name))
                                       .first->second;
  }

  void expect_vectors(const Tokenizer& tokenizer, const std::string& set, std::size_t at_least) {
    const json& cases = vectors_.at(set);
    EXPECT_GE(cases.size(), at_least);
    for (const json& item : cases) {
      const auto text = item.at("text").get<std::string>();
      const Ids expected = item.at("ids").get<Ids>();
      EXPECT_EQ(tokenizer.encode(text, ControlTokens::kParse), expected) << set << ": " << text;
      if (!tokenizer.kind().starts_with("qwen") && text.find("<|") == std::string::npos) {
        EXPECT_EQ(tokenizer.decode(expected), text);
      }
    }
  }

  json vectors_;
};

TEST_F(TokenizerVectors, Llama3) {
  for (const char* name : {"llama3", "llama3_1"}) {
    const Tokenizer& tokenizer = real(name);
    EXPECT_EQ(tokenizer.kind(), "llama3");
    EXPECT_EQ(tokenizer.max_id(), 128255);
    EXPECT_EQ(tokenizer.vocabulary_size(), 128256);
    expect_vectors(tokenizer, "llama3", 44);
    expect_vectors(tokenizer, "llama3_extra", 20);
  }
}

TEST_F(TokenizerVectors, Qwen) {
  const Tokenizer& tokenizer = real("qwen3");
  EXPECT_EQ(tokenizer.kind(), "qwen2");
  EXPECT_EQ(tokenizer.max_id(), 151668);
  EXPECT_EQ(tokenizer.vocabulary_size(), 151669);
  expect_vectors(tokenizer, "qwen2", 43);
  expect_vectors(tokenizer, "qwen2_extra", 20);
}

TEST_F(TokenizerVectors, SmolLm2) {
  const char* folder = std::getenv("APO_SMOLLM2_DIR");
  if (folder == nullptr) {
    GTEST_SKIP() << "APO_SMOLLM2_DIR does not name a folder with SmolLM2's tokenizer.json";
  }
  const Tokenizer tokenizer = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer.kind(), "gpt2-digits");
  EXPECT_EQ(tokenizer.vocabulary_size(), 49152);
  expect_vectors(tokenizer, "smollm_unverified_here", 27);
}

TEST_F(TokenizerVectors, Witnesses) {
  const Tokenizer& llama3 = real("llama3");
  // U+180E is no white space to Oniguruma (it is to PCRE2).
  EXPECT_EQ(llama3.encode(" \u180e!", ControlTokens::kParse), (Ids{87189, 254, 236, 0}));
  // ignore_merges: the whole piece is an entry.
  EXPECT_EQ(llama3.encode(" Vi\u1ec7t", ControlTokens::kParse), Ids{101798});
  // The look-ahead sees the end of the segment before a control token.
  EXPECT_EQ(llama3.encode("hi  <|eot_id|>", ControlTokens::kParse), (Ids{6151, 256, 128009}));
  // The same text with control tokens as text never holds one.
  for (const std::int32_t id : llama3.encode("hi  <|eot_id|>", ControlTokens::kAsText)) {
    EXPECT_LT(id, 128000);
  }
}

TEST_F(TokenizerVectors, BeginOfTextOnlyFromTheNewerFile) {
  EXPECT_EQ(real("llama3").encode("Hello world", ControlTokens::kParse, true), (Ids{9906, 1917}));
  EXPECT_EQ(real("llama3_1").encode("Hello world", ControlTokens::kParse, true),
            (Ids{128000, 9906, 1917}));
}

TEST_F(TokenizerVectors, EveryByteHasAnId) {
  for (const char* name : {"llama3", "qwen3"}) {
    const Tokenizer& tokenizer = real(name);
    for (int byte = 0; byte < 256; ++byte) {
      EXPECT_TRUE(tokenizer.id_of(testing::symbol(byte)).has_value()) << name << " " << byte;
    }
    EXPECT_EQ(tokenizer.dropped_symbols(), 0);
  }
}

}  // namespace
}  // namespace apo::text
