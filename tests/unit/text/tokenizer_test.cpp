#include "apo/text/tokenizer.hpp"

#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "small_tokenizer.hpp"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "apo/core/error.hpp"
#include "apo/text/token_lines.hpp"

namespace apo::text {
namespace {

using nlohmann::json;
using testing::ScratchFolder;
using testing::small_tokenizer;
using Ids = std::vector<std::int32_t>;

Tokenizer load_json(const json& file) {
  const ScratchFolder folder;
  return Tokenizer::load(folder.write("tokenizer.json", file.dump()));
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kData);
    return error.what();
  }
  return "";
}

std::string refusal_of(const std::function<void(json&)>& change) {
  json file = small_tokenizer();
  change(file);
  return refusal([&] { (void)load_json(file); });
}

void expect_mentions(const std::string& message, const std::vector<std::string>& words) {
  EXPECT_NE(message, "");
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "\"" << word << "\" not in: " << message;
  }
}

TEST(Tokenizer, MergesByRank) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  EXPECT_EQ(tokenizer.kind(), "gpt2");
  EXPECT_EQ(tokenizer.max_id(), 262);
  EXPECT_EQ(tokenizer.vocabulary_size(), 263);
  EXPECT_EQ(tokenizer.encode("hello", ControlTokens::kParse), Ids{259});
  EXPECT_EQ(tokenizer.encode("hell hellll", ControlTokens::kParse), (Ids{258, 32, 258, 257}));
  EXPECT_EQ(tokenizer.encode("lll", ControlTokens::kParse), (Ids{257, 'l'}));  // leftmost first
  EXPECT_EQ(tokenizer.encode("", ControlTokens::kParse), Ids{});
  EXPECT_EQ(tokenizer.id_of("<|end|>"), 260);
  EXPECT_EQ(tokenizer.id_of("hell"), 258);
  EXPECT_EQ(tokenizer.id_of("absent"), std::nullopt);
}

TEST(Tokenizer, ControlTokensAsText) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  EXPECT_EQ(tokenizer.encode("hello<|end|>", ControlTokens::kParse), (Ids{259, 260}));
  EXPECT_EQ(tokenizer.encode("<|end|>", ControlTokens::kAsText),
            (Ids{'<', '|', 'e', 'n', 'd', '|', '>'}));
  // A token that is not special is part of what models write.
  EXPECT_EQ(tokenizer.encode("<think>", ControlTokens::kAsText), Ids{262});
}

TEST(Tokenizer, FragmentsAreOneText) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  const auto encode = [&](const std::vector<Fragment>& fragments) {
    return tokenizer.encode_fragments(fragments);
  };
  EXPECT_EQ(encode({{"<|bos|>he", ControlTokens::kParse},
                    {"llo<|end|>", ControlTokens::kAsText},
                    {"<|end|>", ControlTokens::kParse}}),
            (Ids{261, 259, '<', '|', 'e', 'n', 'd', '|', '>', 260}));
  // A spelling that is put together from both sides of a border stays text.
  EXPECT_EQ(encode({{"<|en", ControlTokens::kAsText}, {"d|>", ControlTokens::kParse}}),
            (Ids{'<', '|', 'e', 'n', 'd', '|', '>'}));
  EXPECT_EQ(encode({{"<|en", ControlTokens::kParse}, {"d|>", ControlTokens::kParse}}), Ids{260});
  EXPECT_EQ(encode({}), Ids{});
}

TEST(Tokenizer, DecodesIllFormedBytes) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  const auto decode = [&](const Ids& ids) { return tokenizer.decode(ids); };
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(decode({0xF0, 0x9F, 0x98}), bad);
  EXPECT_EQ(decode({0xFF, 0xFE}), bad + bad);
  EXPECT_EQ(decode({0xE2, 0x82, 0x41}), bad + "A");
  EXPECT_EQ(decode({0xF0, 0x9F, 0x98, 0xF0, 0x9F, 0x98, 0x80}), bad + "\xF0\x9F\x98\x80");
  EXPECT_EQ(decode({0xC0, 0x80}), bad + bad);
  EXPECT_EQ(decode({0xED, 0xA0, 0x80}), bad + bad + bad);
  EXPECT_EQ(decode({0x61, 0xF0, 0x90, 0x80, 0x62}), "a" + bad + "b");
  EXPECT_EQ(decode({259, 260, 262, 9999, -1, 'x'}), "hello<think>x");
  EXPECT_EQ(tokenizer.decode(Ids{259, 260, 261}, false), "hello<|end|><|bos|>");
}

TEST(Tokenizer, ReplacesIllFormedInput) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  const Ids replacement{0xEF, 0xBF, 0xBD};
  EXPECT_EQ(tokenizer.encode("\xF0\x9F\x98", ControlTokens::kParse), replacement);
  EXPECT_EQ(tokenizer.encode("\xC0", ControlTokens::kAsText), replacement);
}

TEST(Tokenizer, CountsDroppedSymbols) {
  json file = small_tokenizer();
  file["model"]["vocab"].erase(testing::symbol('q'));
  file["model"]["vocab"].erase(testing::symbol(0x01));
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("heq\x01llo", ControlTokens::kParse), (Ids{256, 257, 'o'}));
  EXPECT_EQ(tokenizer.dropped_symbols(), 2);  // "q" and U+0001 are pieces of their own
  EXPECT_EQ(tokenizer.encode("helqlo", ControlTokens::kParse), Ids{259});
  EXPECT_EQ(tokenizer.dropped_symbols(), 3);
}

TEST(Tokenizer, PutsPrefixInFront) {
  json file = small_tokenizer();
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single",
                             {{{"SpecialToken", {{"id", "<|bos|>"}, {"type_id", 0}}}},
                              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
                            {"special_tokens", {{"<|bos|>", {{"id", "<|bos|>"}, {"ids", {261}}}}}}};
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("hello", ControlTokens::kParse, true), (Ids{261, 259}));
  EXPECT_EQ(tokenizer.encode("hello", ControlTokens::kParse, false), Ids{259});
}

TEST(Tokenizer, WhitespaceAndWordFlags) {
  json file = small_tokenizer();
  file["added_tokens"][0]["lstrip"] = true;
  file["added_tokens"][1]["rstrip"] = true;
  file["added_tokens"][2]["single_word"] = true;
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("a \n <|end|> b", ControlTokens::kParse), (Ids{'a', 260, ' ', 'b'}));
  EXPECT_EQ(tokenizer.encode("<|bos|>\u00A0 <|end|>", ControlTokens::kParse), (Ids{261, 260}));
  EXPECT_EQ(tokenizer.encode("\n<think>\n", ControlTokens::kParse), (Ids{'\n', 262, '\n'}));
  EXPECT_EQ(tokenizer.encode("a<think>", ControlTokens::kParse),
            (Ids{'a', '<', 't', 'h', 'i', 'n', 'k', '>'}));
}

TEST(Tokenizer, NormalizedTokensAreFoundAfterNfc) {
  json file = small_tokenizer();
  file["normalizer"] = {{"type", "NFC"}};
  file["added_tokens"].push_back(testing::added(263, "e\u0301!", true));
  file["added_tokens"].back()["normalized"] = true;
  const Tokenizer tokenizer = load_json(file);
  EXPECT_EQ(tokenizer.encode("e\u0301", ControlTokens::kParse), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(tokenizer.encode("\u00E9!", ControlTokens::kParse), Ids{263});
  EXPECT_EQ(tokenizer.encode("e\u0301!", ControlTokens::kParse), Ids{263});
  EXPECT_EQ(tokenizer.encode("e\u0301!", ControlTokens::kAsText), (Ids{0xC3, 0xA9, '!'}));
}

TEST(Tokenizer, ReadsFoldersAndGzip) {
  const ScratchFolder folder;
  expect_mentions(refusal([&] { (void)Tokenizer::load(folder.path() / "absent.json"); }),
                  {"absent.json", "no such file"});
  expect_mentions(refusal([&] { (void)Tokenizer::load(folder.path()); }),
                  {"neither tokenizer.json nor tokenizer.json.gz"});
  const std::string text = small_tokenizer().dump();
  const std::string path = (folder.path() / "tokenizer.json.gz").string();
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
  EXPECT_EQ(Tokenizer::load(folder.path()).id_of("hello"), 259);
  EXPECT_EQ(Tokenizer::load(path).id_of("hello"), 259);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  expect_mentions(refusal([&] { (void)Tokenizer::load(path); }), {"tokenizer.json.gz", "damaged"});
  folder.write("tokenizer.json", "{\"model\": ");
  expect_mentions(refusal([&] { (void)Tokenizer::load(folder.path()); }),
                  {"tokenizer.json", "not JSON"});
  folder.write("tokenizer.json", "[1]");
  expect_mentions(refusal([&] { (void)Tokenizer::load(folder.path()); }), {"JSON object", "[1]"});
}

TEST(Tokenizer, RefusesWhatItDoesNotKnow) {
  expect_mentions(refusal_of([](json& f) {
                    f["normalizer"] = {{"type", "NFKC"}};
                  }),
                  {"normalizer", "NFKC", "accepted", "NFC"});
  expect_mentions(refusal_of([](json& f) {
                    f["pre_tokenizer"] = {{"type", "Metaspace"}};
                  }),
                  {"pre_tokenizer", "Metaspace", "Digits"});
  expect_mentions(refusal_of([](json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; }),
                  {"pre_tokenizer", "add_prefix_space"});
  expect_mentions(
      refusal_of([](json& f) {
        f["pre_tokenizer"] = {
            {"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"},
               {"pattern", {{"Regex", "\\p{L}+"}}},
               {"behavior", "Isolated"},
               {"invert", false}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
      }),
      {"pre_tokenizer", "p{L}+"});
  expect_mentions(refusal_of([](json& f) {
                    f["decoder"] = {{"type", "WordPiece"}};
                  }),
                  {"decoder", "WordPiece", "ByteLevel"});
  expect_mentions(refusal_of([](json& f) {
                    f["post_processor"] = {{"type", "BertProcessing"}};
                  }),
                  {"post_processor", "BertProcessing", "TemplateProcessing"});
  expect_mentions(refusal_of([](json& f) { f["model"]["type"] = "Unigram"; }),
                  {"model.type", "Unigram", "BPE"});
  // All findings at once.
  expect_mentions(refusal_of([](json& f) {
                    f["normalizer"] = {{"type", "Lowercase"}};
                    f["decoder"] = nullptr;
                  }),
                  {"Lowercase", "decoder: found null"});
}

TEST(Tokenizer, ChecksTheModel) {
  const auto model = [](const std::function<void(json&)>& change) {
    return refusal_of([&](json& f) { change(f["model"]); });
  };
  expect_mentions(model([](json& m) { m["merges"] = json::array(); }), {"no merge at all"});
  expect_mentions(model([](json& m) { m["merges"] = {"#version: 0.2"}; }), {"no merge at all"});
  expect_mentions(model([](json& m) { m["merges"].push_back("h z q"); }), {"model.merges[4]"});
  expect_mentions(model([](json& m) { m["merges"].push_back({"h", 3}); }), {"model.merges[4]"});
  expect_mentions(model([](json& m) { m["merges"].push_back("h l"); }), {"\"hl\" is not in"});
  expect_mentions(model([](json& m) { m["merges"].push_back({"zz", "l"}); }), {"\"zz\" is not in"});
  expect_mentions(model([](json& m) { m["vocab"]["he"] = 257; }), {"same id 257"});
  expect_mentions(model([](json& m) { m["vocab"]["he"] = -1; }), {"vocab[\"he\"]", "-1"});
  expect_mentions(model([](json& m) { m["vocab"]["he"] = 1U << 30; }), {"vocab[\"he\"]"});
  expect_mentions(model([](json& m) { m["vocab"]["he"] = "x"; }), {"vocab[\"he\"]"});
  expect_mentions(model([](json& m) { m["vocab"] = json::object(); }), {"model.vocab"});
  expect_mentions(model([](json& m) { m["continuing_subword_prefix"] = "##"; }),
                  {"continuing_subword_prefix", "##"});
  expect_mentions(model([](json& m) { m["end_of_word_suffix"] = "</w>"; }), {"end_of_word_suffix"});
  expect_mentions(model([](json& m) { m["dropout"] = 0.1; }), {"dropout"});
  expect_mentions(model([](json& m) {
                    m["unk_token"] = "he";
                    m["vocab"].erase(testing::symbol('q'));
                  }),
                  {"unk_token", "0x71"});
  EXPECT_EQ(model([](json& m) { m["unk_token"] = "he"; }), "");  // can never be used
}

TEST(Tokenizer, ChecksAddedTokens) {
  expect_mentions(
      refusal_of([](json& f) { f["added_tokens"].push_back(testing::added(5, "new")); }),
      {"added_tokens[3]", "id 5, which belongs to"});
  expect_mentions(
      refusal_of([](json& f) { f["added_tokens"].push_back(testing::added(300, "he")); }),
      {"added_tokens[3]", "has id 300, but 256 in model.vocab"});
  expect_mentions(
      refusal_of([](json& f) { f["added_tokens"].push_back(testing::added(300, "<|end|>")); }),
      {"listed twice"});
  expect_mentions(refusal_of([](json& f) { f["added_tokens"].push_back(testing::added(300, "")); }),
                  {"added_tokens[3].content"});
  expect_mentions(refusal_of([](json& f) { f["added_tokens"] = 3; }), {"added_tokens", "a list"});
}

TEST(Tokenizer, IsSafeInThreads) {
  json file = small_tokenizer();
  file["model"]["vocab"].erase(testing::symbol('q'));
  const Tokenizer tokenizer = load_json(file);
  const std::string text = "hello q hell <|end|> 123 e\u0301 \n\n you're";
  const Ids expected = tokenizer.encode(text, ControlTokens::kParse);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < 500; ++repeat) {
        wrong[t] += tokenizer.encode(text, ControlTokens::kParse) == expected ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
  EXPECT_EQ(tokenizer.dropped_symbols(), 2001);
}

TEST(Tokenizer, LongRunsTakeLinearTime) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  const auto start = std::chrono::steady_clock::now();
  const std::size_t count = 500'000;
  EXPECT_EQ(tokenizer.encode(std::string(count, 'l'), ControlTokens::kParse).size(), count / 2);
  EXPECT_EQ(tokenizer.encode(std::string(count, ' ') + "x", ControlTokens::kParse).size(),
            count + 1);
  EXPECT_EQ(tokenizer.encode(std::string(count, '<'), ControlTokens::kParse).size(), count);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 20.0);
}

TEST(TokenLines, RoundTrip) {
  const Tokenizer tokenizer = load_json(small_tokenizer());
  LineOptions options;
  std::istringstream texts("hello\nhell x\n");
  std::ostringstream ids;
  encode_lines(tokenizer, options, texts, ids);
  EXPECT_EQ(ids.str(), "259\n258 32 120\n");
  std::istringstream back(ids.str());
  std::ostringstream decoded;
  decode_lines(tokenizer, options, back, decoded);
  EXPECT_EQ(decoded.str(), "hello\nhell x\n");

  options.format = LineFormat::kJsonl;
  std::istringstream json_texts("\"he\\nhe<|end|>\"\n");
  std::ostringstream json_ids;
  encode_lines(tokenizer, options, json_texts, json_ids);
  EXPECT_EQ(json_ids.str(), "[256,10,256,260]\n");
  options.skip_special_tokens = false;
  std::istringstream json_back("[256, 10, 256,260]\n[]\n");
  std::ostringstream json_decoded;
  decode_lines(tokenizer, options, json_back, json_decoded);
  EXPECT_EQ(json_decoded.str(), "\"he\\nhe<|end|>\"\n\"\"\n");

  std::istringstream broken("\"a\"\nno JSON\n");
  expect_mentions(refusal([&] { encode_lines(tokenizer, options, broken, json_ids); }),
                  {"line 2", "no JSON", "JSON string"});
  std::istringstream not_ids("1 2x\n");
  expect_mentions(refusal([&] { decode_lines(tokenizer, options, not_ids, json_ids); }),
                  {"line 1", "2x"});
}

}  // namespace
}  // namespace apo::text
