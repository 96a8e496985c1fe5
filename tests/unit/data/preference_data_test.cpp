#include "apo/data/preference_data.hpp"

#include "unit/data/temporary_file.hpp"
#include <gtest/gtest.h>
#include <zlib.h>

namespace apo::data {
namespace {

using test::Counts;
using test::error_of;
using test::TemporaryFolder;

DataOptions options_for(std::vector<std::string> files,
                        std::vector<std::string> objectives = {"helpfulness"}) {
  DataOptions options;
  options.files = std::move(files);
  options.objectives = std::move(objectives);
  return options;
}

std::string row(const std::string& more = "") {
  return R"({"prompt": "Why?", "chosen": "Because.", "rejected": "No.")" + more + "}";
}

/// Loads one file with on_bad_row = skip and returns what was dropped.
Counts dropped(const std::string& path, std::vector<std::string> objectives = {"helpfulness"}) {
  DataOptions options = options_for({path}, std::move(objectives));
  options.on_bad_row = "skip";
  return load_preference_data(options).dropped;
}

std::string failure(const DataOptions& options) {
  return error_of(Fault::kData, [&] { (void)load_preference_data(options); });
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1000, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

bool same_pairs(const PreferenceData& a, const PreferenceData& b) {
  if (a.pairs.size() != b.pairs.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.pairs.size(); ++i) {
    const PreferencePair& x = a.pairs[i];
    const PreferencePair& y = b.pairs[i];
    if (x.prompt != y.prompt || x.chosen != y.chosen || x.rejected != y.rejected ||
        x.objective != y.objective || x.client != y.client || x.split != y.split ||
        x.row != y.row) {
      return false;
    }
  }
  return true;
}

TEST(Shapes, NeutralRowKeepsAllFields) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "a.jsonl", row(R"(, "client": "ann", "objective": "honesty", "split": "adapt", "meta": {})") +
                     "\n\n" + row(R"(, "client": 7, "objective": "helpfulness", "split": null)"));
  const PreferenceData data = load_preference_data(options_for({path}, {"helpfulness", "honesty"}));
  ASSERT_EQ(data.pairs.size(), 2U);
  EXPECT_EQ(data.pairs[0].prompt, (std::vector<text::Turn>{{"user", "Why?"}}));
  EXPECT_EQ(data.pairs[0].chosen, "Because.");
  EXPECT_EQ(data.pairs[0].rejected, "No.");
  EXPECT_EQ(data.pairs[0].objective, 1);
  EXPECT_EQ(data.pairs[0].client, "ann");
  EXPECT_EQ(data.pairs[0].split, RowSplit::kAdapt);
  EXPECT_EQ(data.pairs[0].row, 1);
  EXPECT_EQ(data.pairs[1].client, "7");
  EXPECT_EQ(data.pairs[1].split, RowSplit::kUnset);
  EXPECT_EQ(data.pairs[1].row, 3);  // lines are counted, blank ones too
  EXPECT_TRUE(data.dropped.empty());
}

TEST(Shapes, DialogueIsCutBeforeTheLastAssistantTurn) {
  // The responses begin alike, so a common-prefix split would go wrong (trl PR 6079, 1858).
  const TemporaryFolder folder;
  const auto path = folder.write(
      "hh.jsonl",
      R"({"chosen": "\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: Why?\n\nAssistant: I am sure.",)"
      R"( "rejected": "\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: Why?\n\nAssistant: I am sure. Go"})");
  const PreferenceData data = load_preference_data(options_for({path}));
  ASSERT_EQ(data.pairs.size(), 1U);
  EXPECT_EQ(data.pairs[0].prompt,
            (std::vector<text::Turn>{{"user", "Hi"}, {"assistant", "Hello"}, {"user", "Why?"}}));
  EXPECT_EQ(data.pairs[0].chosen, "I am sure.");
  EXPECT_EQ(data.pairs[0].rejected, "I am sure. Go");
}

TEST(Shapes, DialoguesThatDifferBeforeTheLastTurnAreRefused) {
  const TemporaryFolder folder;
  const std::string good =
      R"({"chosen": "\n\nHuman: Hi\n\nAssistant: A", "rejected": "\n\nHuman: Hi\n\nAssistant: B"})";
  const auto path = folder.write(
      "hh.jsonl",
      good + "\n" +
          R"({"chosen": "\n\nHuman: Hi\n\nAssistant: A", "rejected": "\n\nHuman: Ho\n\nAssistant: B"})"
          "\n"
          R"({"chosen": "\n\nHuman: Hi\n\nAssistant: A\n\nHuman: So?", "rejected": "\n\nHuman: Hi\n\nAssistant: B"})"
          "\n"
          R"({"chosen": "\n\nHuman: Hi\n\nAssistant: A\n\nAssistant: B", "rejected": "\n\nHuman: Hi\n\nAssistant: A\n\nAssistant: C"})");
  EXPECT_EQ(dropped(path), (Counts{{"different dialogues", 1},
                                   {"no last assistant turn", 1},
                                   {"prompt does not end with the user", 1}}));
}

TEST(Shapes, ConversationsWithAndWithoutPrompt) {
  const TemporaryFolder folder;
  const std::string explicit_prompt =
      R"({"prompt": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}],)"
      R"( "chosen": [{"role": "assistant", "content": "A"}], "rejected": "B"})";
  const std::string implicit_prompt =
      R"({"chosen": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}],)"
      R"( "rejected": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "B"}]})";
  const auto path =
      folder.write("c.json", "[" + explicit_prompt + ",\n" + implicit_prompt + "," + row() + "]");
  const PreferenceData data = load_preference_data(options_for({path}));
  ASSERT_EQ(data.pairs.size(), 3U);
  EXPECT_EQ(data.pairs[0].prompt, (std::vector<text::Turn>{{"system", "S"}, {"user", "Q"}}));
  EXPECT_EQ(data.pairs[1].prompt, (std::vector<text::Turn>{{"user", "Q"}}));
  for (const int i : {0, 1}) {
    EXPECT_EQ(data.pairs[static_cast<std::size_t>(i)].chosen, "A");
    EXPECT_EQ(data.pairs[static_cast<std::size_t>(i)].rejected, "B");
  }
  EXPECT_EQ(data.pairs[2].row, 3);
}

TEST(Shapes, RepeatedPromptIsStrippedOrRefused) {
  const TemporaryFolder folder;
  const auto conversation = [](const std::string& question, const std::string& answer) {
    return R"([{"role": "user", "content": ")" + question +
           R"("}, {"role": "assistant", "content": ")" + answer + R"("}])";
  };
  const auto path =
      folder.write("u.jsonl", R"({"prompt": "Q", "chosen": )" + conversation("Q", "A") +
                                  R"(, "rejected": )" + conversation("Q", "B") + "}\n" +
                                  R"({"prompt": "Q", "chosen": )" + conversation("Q ", "A") +
                                  R"(, "rejected": )" + conversation("Q", "B") + "}\n" +
                                  R"({"prompt": "\n\nHuman: Q\n\nAssistant:", "chosen": "A",)"
                                  R"( "rejected": "\n\nHuman: Q\n\nAssistant: B"})");
  DataOptions options = options_for({path});
  options.on_bad_row = "skip";
  const PreferenceData data = load_preference_data(options);
  ASSERT_EQ(data.pairs.size(), 2U);
  for (const PreferencePair& pair : data.pairs) {
    EXPECT_EQ(pair.prompt, (std::vector<text::Turn>{{"user", "Q"}}));
    EXPECT_EQ(pair.chosen, "A");
    EXPECT_EQ(pair.rejected, "B");
  }
  EXPECT_EQ(data.dropped, (Counts{{"prompt repeated differently", 1}}));
}

TEST(Shapes, ClientObjectNamesTheClients) {
  const TemporaryFolder folder;
  const auto path = folder.write("fed.json", "{\n \"b \\u00e9\": [" + row() + "],\n \"a\": [" +
                                                 row() + ",\n" + row() + "], \"none\": []}");
  const PreferenceData data = load_preference_data(options_for({path}));
  ASSERT_EQ(data.pairs.size(), 3U);
  EXPECT_EQ(data.pairs[0].client, "b \xc3\xa9");
  EXPECT_EQ(data.pairs[2].client, "a");
  const std::string text = failure(options_for({path}, {"helpfulness", "honesty"}));
  EXPECT_HAS(text, "row 2 (client 'a'), field 'objective': missing field");
}

TEST(Shapes, OthersAreRefusedByName) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> shapes = {
      {R"({"instruction": "a", "input": "", "chosen": "b", "rejected": "c"})", "alpaca (shape 5)"},
      {R"({"conversations": [], "chosen": {}, "rejected": {}})", "sharegpt (shape 5)"},
      {R"({"source": "x", "instruction": "a", "completions": []})", "UltraFeedback"},
      {R"({"prompt": "a", "response": "b", "helpfulness": 3})", "HelpSteer"},
      {R"({"prompt": "a", "response_0": "b", "response_1": "c"})", "PKU-SafeRLHF (shape 7)"},
      {R"({"message_tree_id": "x", "prompt": {}})", "OpenAssistant"},
  };
  for (const auto& [text, name] : shapes) {
    const std::string message = failure(options_for({folder.write("x.jsonl", text)}));
    EXPECT_HAS(message, name);
    EXPECT_HAS(message, "x.jsonl");
  }
  EXPECT_HAS(failure(options_for({folder.write("y.jsonl", R"({"text": "a", "id": 1})")})),
             "rows of no known shape: an object with id, text");
}

TEST(Shapes, FormatThatIsAskedForMustBeFound) {
  const TemporaryFolder folder;
  DataOptions options = options_for({folder.write("a.jsonl", row())});
  options.format = "fedllm";
  EXPECT_HAS(failure(options), "expected one JSON object client -> rows");
  options.format = "hh_rlhf";
  EXPECT_HAS(failure(options), "field 'chosen': not a dialogue");
  options.format = "conversational";
  EXPECT_HAS(failure(options), "field 'prompt': not a message list");
  options.format = "pairs";
  EXPECT_EQ(load_preference_data(options).pairs.size(), 1U);
}

TEST(Containers, MarkLineEndsAndGzipChangeNothing) {
  const TemporaryFolder folder;
  const std::string lf = row(R"(, "client": "a")") + "\n" + row(R"(, "client": "b")") + "\n";
  std::string crlf;
  for (const char c : lf) {
    crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  }
  const PreferenceData reference =
      load_preference_data(options_for({folder.write("lf.jsonl", lf)}));
  ASSERT_EQ(reference.pairs.size(), 2U);
  const std::vector<std::string> others = {
      folder.write("bom.jsonl", "\xef\xbb\xbf" + lf),
      folder.write("crlf.jsonl", crlf),
      folder.write("gz.jsonl.gz", gzip(lf)),
      folder.write("bomgz.jsonl.gz", gzip("\xef\xbb\xbf" + crlf)),
      folder.write("members.jsonl.gz", gzip(lf.substr(0, 40)) + gzip(lf.substr(40))),
      folder.write("list.json",
                   "[" + row(R"(, "client": "a")") + ", " + row(R"(, "client": "b")") + "]")};
  for (const std::string& path : others) {
    EXPECT_TRUE(same_pairs(load_preference_data(options_for({path})), reference)) << path;
  }
}

TEST(Containers, DamageIsNamed) {
  const TemporaryFolder folder;
  const std::string packed = gzip(row() + "\n");
  const auto message = [&](const std::string& name, const std::string& text) {
    const std::string found = failure(options_for({folder.write(name, text)}));
    EXPECT_HAS(found, name);
    return found;
  };
  EXPECT_HAS(message("short.jsonl.gz", packed.substr(0, packed.size() - 9)), "damaged gzip");
  EXPECT_HAS(message("lfs.jsonl.gz", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
             "Git-LFS pointer");
  EXPECT_HAS(message("empty.jsonl", " \n"), "is empty");
  EXPECT_HAS(message("wide.jsonl", std::string("\xff\xfe{\0", 4)), "UTF-16");
  EXPECT_HAS(message("text.jsonl", "prompt,chosen"), "expected JSON");
  EXPECT_HAS(message("cut.json", "[" + row() + ",\n" + row().substr(0, 30)),
             "line 2, column 31: the list ends inside row 2");
  EXPECT_HAS(message("comma.json", "[" + row() + "\n" + row() + "]"),
             "line 2, column 1: expected ',' or ']' after row 1, found '{'");
  EXPECT_HAS(message("tail.json", "[" + row() + "] x"), "expected nothing after");
  EXPECT_HAS(message("twice.json", R"({"a": [], "a": []})"), "client 'a' stands twice");
  EXPECT_HAS(message("mess.jsonl", "{\n\"a\n\n"), "neither JSON lines nor one JSON document");
  EXPECT_HAS(
      error_of(Fault::kData, [] { (void)load_preference_data(options_for({"/no/such.jsonl"})); }),
      "/no/such.jsonl: cannot open");
}

TEST(BadRows, EachReasonIsCounted) {
  const TemporaryFolder folder;
  const auto bad = [](const std::string& chosen, const std::string& rejected) {
    return R"({"prompt": "Q", "chosen": )" + chosen + R"(, "rejected": )" + rejected + "}\n";
  };
  std::string deep = row(R"(, "meta": )" + std::string(70, '[') + std::string(70, ']'));
  const auto path = folder.write(
      "bad.jsonl", row() + "\n" + bad(R"("A")", R"("A")") + bad(R"("")", R"("A")") +
                       bad(R"("A")", R"(" \n")") + bad("true", R"("A")") + bad("3.5", R"("A")") +
                       bad(R"("\ud800 A")", R"("B")") + bad("\"\xff\"", R"("B")") +
                       bad(R"("A\u0000")", R"("B")") + "{\"prompt\": \"Q\", \"chosen\": \"A\"}\n" +
                       "{\"prompt\": null, \"chosen\": \"A\", \"rejected\": \"B\"}\n" +
                       "{\"prompt\": \"Q\",\n" + "[1]\n" + deep + "\n" + row(R"(, "prompt": "R")") +
                       "\n" + row(R"(, "split": "test")") + "\n" + row(R"(, "objective": 3)") +
                       "\n" + row(R"(, "objective": "safety")") + "\n" + row(R"(, "client": "")") +
                       "\n");
  EXPECT_EQ(dropped(path), (Counts{{"NUL byte", 1},
                                   {"empty client", 1},
                                   {"empty response", 2},
                                   {"equal responses", 1},
                                   {"invalid UTF-8", 1},
                                   {"lone surrogate", 1},
                                   {"malformed JSON", 1},
                                   {"missing field", 2},
                                   {"nested too deeply", 1},
                                   {"not a string", 3},
                                   {"not an object", 1},
                                   {"objective not in use", 1},
                                   {"repeated key", 1},
                                   {"unknown split", 1}}));
}

TEST(BadRows, ErrorsNameFileRowFieldFoundAndExpected) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "bad.jsonl", row() + "\n" + R"({"prompt": "Q", "chosen": true, "rejected": "B"})" + "\n" +
                       R"({"prompt": "Q", "chosen": "A", "rejected" "B"})" + "\n");
  const std::string text = failure(options_for({path}));
  EXPECT_HAS(text, "2 bad rows");
  EXPECT_HAS(text, path +
                       ": row 2, field 'chosen': not a string: found true; expected a string or a "
                       "list of messages");
  EXPECT_HAS(text, path + ": row 3: malformed JSON: found line 3, column 45: ");
}

TEST(BadRows, TwentyAreListedAndAllCounted) {
  const TemporaryFolder folder;
  std::string text = row() + "\n";
  for (int i = 0; i < 33; ++i) {
    text += R"({"prompt": "Q", "chosen": "", "rejected": "B"})"
            "\n";
  }
  const std::string message = failure(options_for({folder.write("bad.jsonl", text)}));
  EXPECT_HAS(message, "33 bad rows");
  EXPECT_HAS(message, "row 21, ");
  EXPECT_EQ(message.find("row 22, "), std::string::npos);
  EXPECT_HAS(message, "and 13 more");
}

TEST(BadRows, OneBadElementOfAListLeavesTheOthers) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("bad.json", "[\n" + row() + ",\n  {\"prompt\": oops},\n" + row() + "\n]\n");
  EXPECT_EQ(dropped(path), (Counts{{"malformed JSON", 1}}));
  EXPECT_HAS(failure(options_for({path})), "row 2: malformed JSON: found line 3, column 14: ");
}

TEST(BadRows, FirstRowMayBeTheBadOne) {
  const TemporaryFolder folder;
  const auto path = folder.write("bad.jsonl", R"({"prompt": "Q", "chosen": "A"})"
                                              "\n" +
                                                  row());
  EXPECT_EQ(dropped(path), (Counts{{"missing field", 1}}));
}

TEST(Objectives, UnknownOnesListWhatWasFound) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.jsonl", row(R"(, "objective": "honesty")") + "\n" +
                                                row(R"(, "objective": "safety")") + "\n" +
                                                row(R"(, "objective": "safety")"));
  const std::string text = failure(options_for({path}, {"honesty", "safty"}));
  EXPECT_HAS(text, "no usable row has objective 'safty' (did you mean 'safety'?)");
  EXPECT_HAS(text, "found honesty (1 rows), safety (2 rows)");
  // A row that belongs to no objective in use is not checked further.
  EXPECT_EQ(dropped(path, {"safety"}), (Counts{{"objective not in use", 1}}));
}

TEST(Objectives, OppositePairsUnderTwoObjectivesStay) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "a.jsonl", R"({"prompt": "Q", "chosen": "A", "rejected": "B", "objective": "x"})"
                 "\n"
                 R"({"prompt": "Q", "chosen": "B", "rejected": "A", "objective": "y"})"
                 "\n"
                 R"({"prompt": "Q", "chosen": "A", "rejected": "B", "objective": "x"})");
  DataOptions options = options_for({path}, {"x", "y"});
  const PreferenceData kept = load_preference_data(options);
  EXPECT_EQ(kept.pairs.size(), 3U);
  EXPECT_EQ(kept.num_duplicates, 1);
  EXPECT_TRUE(kept.dropped.empty());
  options.duplicates = "drop";
  const PreferenceData without = load_preference_data(options);
  EXPECT_EQ(without.pairs.size(), 2U);
  EXPECT_EQ(without.dropped, (Counts{{"duplicate", 1}}));
}

TEST(Objectives, RepeatedOrAbsentOptionsAreRefused) {
  EXPECT_HAS(error_of(Fault::kConfig,
                      [] {
                        (void)load_preference_data(options_for({"a"}, {"x", "x"}));
                      }),
             "stands twice");
  EXPECT_HAS(error_of(Fault::kConfig, [] { (void)load_preference_data(options_for({}, {"x"})); }),
             "names no file");
}

class RealData : public testing::Test {
 protected:
  void SetUp() override {
    if (test::shared_data().empty()) {
      GTEST_SKIP() << "the shared test data is not beside the source tree";
    }
  }
  static Counts by_objective(const PreferenceData& data) {
    Counts counts;
    for (const PreferencePair& pair : data.pairs) {
      ++counts[data.objectives[static_cast<std::size_t>(pair.objective)]];
    }
    return counts;
  }
  static PreferenceData load(const std::string& name, std::vector<std::string> objectives) {
    return load_preference_data(options_for({test::shared_data() + name}, std::move(objectives)));
  }
};

TEST_F(RealData, OpenFilesHaveTheRowsOfTheirReadme) {
  EXPECT_EQ(
      by_objective(
          load("open/qa_feedback.jsonl", {"overall", "relevance", "completeness", "factuality"})),
      (Counts{{"overall", 1324}, {"relevance", 197}, {"completeness", 181}, {"factuality", 90}}));
  EXPECT_EQ(
      by_objective(load("open/hhh.jsonl", {"helpfulness", "honesty", "harmlessness", "other"})),
      (Counts{{"helpfulness", 23}, {"honesty", 25}, {"harmlessness", 20}, {"other", 20}}));
  EXPECT_EQ(load("open/hh_harmless.jsonl", {"harmlessness"}).pairs.size(), 170U);
  EXPECT_EQ(load("open/qa_longprompt.jsonl", {"factuality"}).pairs.size(), 53U);
  EXPECT_EQ(by_objective(load("open/oasst.jsonl", {"quality", "approval"})),
            (Counts{{"quality", 379}, {"approval", 156}}));
  const PreferenceData pandalm = load("open/pandalm.jsonl", {"overall"});
  Counts clients;
  for (const PreferencePair& pair : pandalm.pairs) {
    ++clients[pair.client];
  }
  EXPECT_EQ(clients, (Counts{{"annotator1", 488}, {"annotator2", 481}, {"annotator3", 485}}));
  EXPECT_EQ(pandalm.num_duplicates, 164);
}

TEST_F(RealData, SubsetOfObjectivesCountsTheRest) {
  const PreferenceData data = load("open/hhh.jsonl", {"honesty", "helpfulness"});
  EXPECT_EQ(data.pairs.size(), 48U);
  EXPECT_EQ(data.dropped, (Counts{{"objective not in use", 40}}));
}

TEST_F(RealData, NativeFiles) {
  for (const auto& [name, rows] :
       {std::pair{"helpfulness", 23U}, std::pair{"honesty", 25U}, std::pair{"harmlessness", 20U}}) {
    EXPECT_EQ(load(std::string("native/hhh_") + name + ".jsonl", {name}).pairs.size(), rows);
  }
  const PreferenceData plain = load("native/hh_rlhf.jsonl", {"harmlessness"});
  EXPECT_EQ(plain.pairs.size(), 60U);
  EXPECT_TRUE(same_pairs(plain, load("native/hh_rlhf.jsonl.gz", {"harmlessness"})));
  const PreferenceData clients = load("native/fed_clients.json", {"overall"});
  EXPECT_EQ(clients.pairs.size(), 337U);
  Counts rows;
  for (const PreferencePair& pair : clients.pairs) {
    ++rows[pair.client];
  }
  EXPECT_EQ(rows.size(), 42U);
  EXPECT_EQ(rows["CNN News"], 1);
  EXPECT_EQ(rows["Google Sheet"], 6);
  for (const auto& [name, shape] :
       {std::pair{"qa_feedback.json", "QA-Feedback"}, std::pair{"pandalm_testset.json", "PandaLM"},
        std::pair{"oasst_trees.jsonl", "OpenAssistant"}}) {
    EXPECT_HAS(failure(options_for({test::shared_data() + "native/" + name})), shape);
  }
}

TEST_F(RealData, DialoguesAgreeWithTheirConversionByAnotherProgram) {
  const PreferenceData native = load("native/hh_rlhf.jsonl", {"harmlessness"});
  const PreferenceData open = load("open/hh_harmless.jsonl", {"harmlessness"});
  int found = 0;
  for (const PreferencePair& pair : native.pairs) {
    for (const PreferencePair& other : open.pairs) {
      if (pair.prompt == other.prompt && pair.chosen == other.chosen &&
          pair.rejected == other.rejected) {
        ++found;
        break;
      }
    }
  }
  EXPECT_EQ(found, 60);
}

TEST_F(RealData, QuirksAreBadRowsByReason) {
  const std::string path = test::shared_data() + "open/quirks.jsonl";
  DataOptions options = options_for({path}, {"overall", "harmlessness"});
  const std::string text = failure(options);
  EXPECT_HAS(text, "40 bad rows");
  EXPECT_HAS(text,
             "row 1, field 'prompt, message 5': roles do not alternate: found assistant; "
             "expected user");
  EXPECT_HAS(text, "row 2, field 'chosen': empty response: found no text; expected a response");
  EXPECT_HAS(text, "row 6, field 'chosen': not a string: found true");
  options.files.push_back(test::shared_data() + "open/hh_harmless.jsonl");
  options.files.push_back(test::shared_data() + "open/pandalm.jsonl");
  options.on_bad_row = "skip";
  const PreferenceData data = load_preference_data(options);
  EXPECT_EQ(data.pairs.size(), 170U + 1454U);
  EXPECT_EQ(data.dropped,
            (Counts{{"roles do not alternate", 1}, {"empty response", 33}, {"not a string", 6}}));
}

}  // namespace
}  // namespace apo::data
