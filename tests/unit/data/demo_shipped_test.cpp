// What lies in configs/demo, against the rules and against what can be rebuilt without a model.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <zlib.h>

#include "apo/data/demo_domain.hpp"
#include "apo/data/partition.hpp"
#include "apo/data/preference_data.hpp"

namespace apo::data::demo {
namespace {

namespace fs = std::filesystem;
const fs::path kDir = fs::path(APO_SOURCE_DIR) / "configs" / "demo";
constexpr std::uint64_t kShippedSeed = 1;  // configs/demo/README.md

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

PreferenceData load_shipped() {
  DataOptions options;
  options.files = {(kDir / "pairs.jsonl.gz").string()};
  for (const std::string_view name : objective_names()) {
    options.objectives.emplace_back(name);
  }
  return load_preference_data(options);
}

std::string last_user_text(const PreferencePair& pair) { return pair.prompt.back().content; }

TEST(DemoShipped, TokenizerEqualsARebuild) {
  EXPECT_EQ(read_file(kDir / "model" / "tokenizer.json"), tokenizer_json());
  EXPECT_EQ(read_file(kDir / "model" / "tokenizer_config.json"), tokenizer_config_json());
}

TEST(DemoShipped, IsSmall) {
  std::uintmax_t num_bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kDir)) {
    num_bytes += entry.is_regular_file() ? entry.file_size() : 0;
  }
  EXPECT_LE(num_bytes, 3U * 1000U * 1000U);
}

TEST(DemoShipped, LabelsAgreeWithTheRules) {
  const PreferenceData data = load_shipped();
  EXPECT_TRUE(data.dropped.empty());
  EXPECT_GT(data.pairs.size(), 3000U);
  for (const PreferencePair& pair : data.pairs) {
    const auto prompt = parse_prompt(last_user_text(pair));
    const auto chosen = parse_answer(pair.chosen);
    const auto rejected = parse_answer(pair.rejected);
    ASSERT_TRUE(prompt && chosen && rejected) << "row " << pair.row;
    const auto j = static_cast<std::size_t>(pair.objective);
    EXPECT_GT(score(*prompt, *chosen)[j], score(*prompt, *rejected)[j] + 1e-9)
        << "row " << pair.row << " under " << objective_names()[j];
  }
}

TEST(DemoShipped, OnlyTiesAreLeftOut) {
  const PreferenceData data = load_shipped();
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::set<int>> labels;
  for (const PreferencePair& pair : data.pairs) {
    const auto [low, high] = std::minmax(pair.chosen, pair.rejected);
    labels[{pair.client, last_user_text(pair), low, high}].insert(pair.objective);
  }
  for (const auto& [key, objectives] : labels) {
    const auto& [client, prompt_text, first, second] = key;
    const Prompt prompt = parse_prompt(prompt_text).value();
    const Scores a = score(prompt, parse_answer(first).value());
    const Scores b = score(prompt, parse_answer(second).value());
    for (int j = 0; j < kNumObjectives; ++j) {
      const bool tie =
          std::abs(a[static_cast<std::size_t>(j)] - b[static_cast<std::size_t>(j)]) < 1e-9;
      EXPECT_EQ(objectives.contains(j), !tie) << client << ": " << prompt_text;
    }
  }
}

TEST(DemoShipped, HeldOutPairsOccurInEvaluationOnly) {
  std::map<std::string, std::set<std::string>> prompts;  // client and split -> prompts
  for (const PreferencePair& pair : load_shipped().pairs) {
    const Prompt prompt = parse_prompt(last_user_text(pair)).value();
    ASSERT_NE(pair.split, RowSplit::kUnset) << "row " << pair.row;
    EXPECT_EQ(held_out(prompt.action, prompt.object), pair.split == RowSplit::kEvaluate)
        << "row " << pair.row;
    EXPECT_EQ(pair.client.starts_with("client-"), pair.split == RowSplit::kTrain);
    prompts[pair.client + (pair.split == RowSplit::kEvaluate ? " evaluate" : "")].insert(
        last_user_text(pair));
  }
  EXPECT_EQ(prompts.size(), 24U + 2U * 12U);
  for (const auto& [client, texts] : prompts) {
    // a prompt without a row had the same scores under all four rules: rare
    const std::size_t drawn = client.starts_with("client-")  ? 40
                              : client.ends_with("evaluate") ? 24
                                                             : 20;
    EXPECT_LE(texts.size(), drawn) << client;
    EXPECT_GE(texts.size(), drawn - 3) << client;
  }
}

TEST(DemoShipped, PreferencesEqualARebuild) {
  std::istringstream lines(read_file(kDir / "preferences.csv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "client,helpfulness,harmlessness,brevity,courtesy");
  int index = 0;
  for (; std::getline(lines, line); ++index) {
    std::istringstream cells(line);
    std::string cell;
    std::getline(cells, cell, ',');
    const int number = index < 24 ? index : index - 24;
    EXPECT_EQ(cell, (index < 24 ? "client-" : "new-") + std::string(number < 10 ? "0" : "") +
                        std::to_string(number));
    for (const double weight : client_preference(kShippedSeed, index)) {
      ASSERT_TRUE(std::getline(cells, cell, ',')) << line;
      EXPECT_NEAR(std::stod(cell), weight, 1e-6) << line;
    }
  }
  EXPECT_EQ(index, 36);
}

TEST(DemoShipped, MakesThePartitionOfTheQuickstart) {
  DataOptions options;
  options.files = {(kDir / "pairs.jsonl.gz").string()};
  options.objectives = {"helpfulness", "harmlessness", "brevity", "courtesy"};
  options.preferences = (kDir / "preferences.csv").string();
  const Partition partition = make_partition(load_preference_data(options), options, 1);
  EXPECT_EQ(partition.train_clients().size(), 24U);
  EXPECT_EQ(partition.test_clients().size(), 12U);
}

TEST(DemoShipped, ArchiveCarriesNoTime) {
  const std::string archive = read_file(kDir / "pairs.jsonl.gz");
  ASSERT_GT(archive.size(), 10U);
  EXPECT_EQ(archive.substr(0, 4), std::string("\x1f\x8b\x08\x00", 4));
  EXPECT_EQ(archive.substr(4, 4), std::string(4, '\0'));
}

}  // namespace
}  // namespace apo::data::demo
