#include "apo/data/token_pairs.hpp"

#include <algorithm>
#include <filesystem>

#include "unit/data/temporary_file.hpp"
#include <gtest/gtest.h>

namespace apo::data {
namespace {

using test::Counts;
using test::error_of;
using test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

/// A tokenizer of single letters: 'a'..'z' are 0..25, space 26, newline 27, the end token 28,
/// '<' 32, '|' 33, '>' 34.
/// One letter is one token, so that every cut can be predicted.
class Letters : public testing::Test {
 protected:
  static constexpr std::int32_t kEnd = 28;
  static constexpr std::int64_t kVocabulary = 35;

  void SetUp() override {
    std::string vocabulary;
    for (char c = 'a'; c <= 'z'; ++c) {
      vocabulary += std::string("\"") + c + "\": " + std::to_string(c - 'a') + ", ";
    }
    vocabulary +=
        "\"\\u0120\": 26, \"\\u010a\": 27, \"A\": 29, \"B\": 30, \"AB\": 31, \"<\": 32, "
        "\"|\": 33, \">\": 34";
    const std::string path = folder_.write(
        "tokenizer.json",
        R"({"version": "1.0", "normalizer": null,)"
        R"("added_tokens": [{"id": 28, "content": "<|end|>", "special": true, "lstrip": false,)"
        R"("rstrip": false, "single_word": false, "normalized": false}],)"
        R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,)"
        R"("trim_offsets": true, "use_regex": true}, "post_processor": null,)"
        R"("decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,)"
        R"("use_regex": true}, "model": {"type": "BPE", "dropout": null, "unk_token": null,)"
        R"("continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": false,)"
        R"("byte_fallback": false, "vocab": {)" +
            vocabulary + R"(}, "merges": ["A B"]}})");
    (void)folder_.write("tokenizer_config.json", R"({"eos_token": "<|end|>"})");
    model_dir_ = std::filesystem::path(path).parent_path();
    options_.files = {"rows.jsonl"};
    options_.max_length = 12;
    options_.max_prompt_length = 6;
  }

  void add(const std::string& prompt, const std::string& chosen, const std::string& rejected) {
    PreferencePair pair;
    pair.prompt = {{"user", prompt}};
    pair.chosen = chosen;
    pair.rejected = rejected;
    pair.row = static_cast<std::int64_t>(data_.pairs.size()) + 1;
    data_.pairs.push_back(pair);
  }

  [[nodiscard]] TokenData tokenize(std::int64_t vocabulary_limit = kVocabulary) const {
    return tokenize_pairs(data_, text::Tokenizer::load(model_dir_),
                          text::ChatTemplate::load(model_dir_, "plain", ""), options_,
                          vocabulary_limit);
  }

  /// Ids of letters; '_' is a space, '/' a newline, '.' the end token.
  static Ids ids(const std::string& text) {
    Ids result;
    for (const char c : text) {
      result.push_back(c == '_' ? 26 : c == '/' ? 27 : c == '.' ? kEnd : c - 'a');
    }
    return result;
  }

  TemporaryFolder folder_;
  std::filesystem::path model_dir_;
  DataOptions options_;
  PreferenceData data_;
};

TEST_F(Letters, ShortPairsKeepEverything) {
  add("ab cd", "xyz", "q");
  const TokenData tokens = tokenize();
  ASSERT_EQ(tokens.pairs.size(), 1U);
  EXPECT_EQ(tokens.pairs[0].prompt, ids("ab_cd/"));
  EXPECT_EQ(tokens.pairs[0].chosen, ids("xyz."));
  EXPECT_EQ(tokens.pairs[0].rejected, ids("q."));
  EXPECT_TRUE(tokens.counts.empty());
}

TEST_F(Letters, KeepEndCutsThePromptsHeadAndTheResponsesTail) {
  add("abcdefgh", "rstuvwxyz", "q");  // 9 + 10 tokens: the prompt keeps 6, the response 6
  add("abcdefgh", "x", "y");          // 9 + 2: fits, the prompt may be longer than 6
  add("abc", "klmnopqrst", "q");      // 4 + 11: only the response is cut
  const TokenData tokens = tokenize();
  EXPECT_EQ(tokens.pairs[0].prompt, ids("defgh/"));
  EXPECT_EQ(tokens.pairs[0].chosen, ids("rstuvw"));
  EXPECT_EQ(tokens.pairs[0].rejected, ids("q."));
  EXPECT_EQ(tokens.pairs[1].prompt, ids("abcdefgh/"));
  EXPECT_EQ(tokens.pairs[1].chosen, ids("x."));
  EXPECT_EQ(tokens.pairs[2].prompt, ids("abc/"));
  EXPECT_EQ(tokens.pairs[2].chosen, ids("klmnopqr"));
  EXPECT_EQ(tokens.counts, (Counts{{"prompt cut", 1}, {"response cut", 2}}));
}

TEST_F(Letters, KeepEndAlwaysLeavesAResponseToken) {
  options_.max_prompt_length = 100;
  add("abcdefghijklmnop", "xy", "zw");
  const TokenData tokens = tokenize();
  EXPECT_EQ(tokens.pairs[0].prompt, ids("ghijklmnop/"));
  EXPECT_EQ(tokens.pairs[0].chosen, ids("x"));
  EXPECT_EQ(tokens.pairs[0].rejected, ids("z"));
}

TEST_F(Letters, KeepStartDropsPromptsWithoutRoom) {
  options_.truncation = "keep_start";
  add("abcdefghijk", "x", "y");        // 12 tokens: no room
  add("abcdefghij", "xy", "zw");       // 11 tokens: one token each
  add("abcdefghijklmnopq", "x", "y");  // longer than max_length
  const TokenData tokens = tokenize();
  EXPECT_FALSE(tokens.pairs[0].usable());
  EXPECT_TRUE(tokens.pairs[1].usable());
  EXPECT_EQ(tokens.pairs[1].prompt, ids("abcdefghij/"));
  EXPECT_EQ(tokens.pairs[1].chosen, ids("x"));
  EXPECT_FALSE(tokens.pairs[2].usable());
  EXPECT_EQ(tokens.counts, (Counts{{"no room left", 2}, {"response cut", 2}}));
}

TEST_F(Letters, PairsThatBecomeEqualAreDropped) {
  add("abcdefgh", "xxxxxxxxxa", "xxxxxxxxxb");
  add("a", "x", "y");
  const TokenData tokens = tokenize();
  EXPECT_FALSE(tokens.pairs[0].usable());
  EXPECT_TRUE(tokens.pairs[0].chosen.empty() && tokens.pairs[0].rejected.empty());
  EXPECT_TRUE(tokens.pairs[1].usable());
  EXPECT_EQ(tokens.counts.at("equal after cutting"), 1);
}

TEST_F(Letters, IdsBeyondTheEmbeddingAreNamed) {
  add("a", "b", "c");
  add("a", "z", "c");
  EXPECT_EQ(tokenize(29).pairs.size(), 2U);
  const std::string end = error_of(Fault::kData, [&] { (void)tokenize(28); });
  EXPECT_HAS(end, "rows.jsonl row 1: token 28 ('<|end|>') is beyond the model's embedding of 28");
  const std::string newline = error_of(Fault::kData, [&] { (void)tokenize(27); });
  EXPECT_HAS(newline, "token 27 ('\n')");
}

TEST_F(Letters, ContentsThatSpellControlTokensStayText) {
  add("a", "b<|end|>c", "c");
  EXPECT_EQ(tokenize().pairs[0].chosen,
            (Ids{1, 32, 33, 4, 13, 3, 33, 34, 2, kEnd}));  // b < | e n d | > c end
}

TEST(RealTokens, BothPoliciesStayInsideTheLimits) {
  const std::string shared = test::shared_data();
  if (shared.empty()) {
    GTEST_SKIP() << "the shared test data is not beside the source tree";
  }
  DataOptions options;
  options.files = {shared + "open/qa_longprompt.jsonl", shared + "open/hh_harmless.jsonl"};
  options.objectives = {"factuality", "harmlessness"};
  const PreferenceData data = load_preference_data(options);
  const std::string model_dir = shared + "tokenizers/llama3";
  const text::Tokenizer tokenizer = text::Tokenizer::load(model_dir);
  const auto chat = text::ChatTemplate::load(model_dir, "llama3", "");
  const TokenData keep_end = tokenize_pairs(data, tokenizer, chat, options, 128256);
  options.truncation = "keep_start";
  const TokenData keep_start = tokenize_pairs(data, tokenizer, chat, options, 128256);
  const std::int32_t eot = 128009;
  std::int64_t num_dropped = 0;
  for (std::size_t i = 0; i < data.pairs.size(); ++i) {
    const Ids full = chat.encode_prompt(tokenizer, data.pairs[i].prompt);
    const Ids response = chat.encode_response(tokenizer, data.pairs[i].chosen);
    EXPECT_EQ(response.back(), eot);
    const TokenPair& end = keep_end.pairs[i];
    ASSERT_TRUE(end.usable()) << i;  // policy B loses no pair
    EXPECT_TRUE(std::equal(end.prompt.rbegin(), end.prompt.rend(), full.rbegin()));
    EXPECT_TRUE(std::equal(end.chosen.begin(), end.chosen.end(), response.begin()));
    EXPECT_LE(end.prompt.size() + std::max(end.chosen.size(), end.rejected.size()), 256U);
    EXPECT_TRUE(end.prompt.size() == full.size() || end.prompt.size() == 128U);
    EXPECT_EQ(keep_start.pairs[i].usable(), full.size() < 256) << i;
    num_dropped += full.size() < 256 ? 0 : 1;
  }
  EXPECT_GE(keep_end.counts.at("prompt cut"), 53);  // every long prompt
  EXPECT_EQ(keep_start.counts.at("no room left"), num_dropped);
  EXPECT_GE(num_dropped, 53);
}

}  // namespace
}  // namespace apo::data
