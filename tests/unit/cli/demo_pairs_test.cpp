// The shipped model and the shipped pairs: two clients are made again and compared row by row.

#include "demo_pairs.hpp"

#include <array>
#include <filesystem>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <zlib.h>

namespace apo::cli {
namespace {

const std::string kDir = std::string(APO_SOURCE_DIR) + "/configs/demo";
constexpr std::uint64_t kShippedSeed = 1;  // configs/demo/README.md

struct Shipped {
  text::Tokenizer tokenizer = text::Tokenizer::load(kDir + "/model");
  text::ChatTemplate chat = text::ChatTemplate::load(kDir + "/model", "auto", "");
  model::LanguageModel model = [] {
    model::configure_torch(1);
    model::ModelOptions options;
    options.path = kDir + "/model";
    return model::LanguageModel::load(options, {}, "cpu");
  }();
};

std::string unpack(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  std::string text;
  std::array<char, 65536> block{};
  for (int n = 0; (n = gzread(file, block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(n));
  }
  gzclose(file);
  return text;
}

TEST(DemoPairs, ShippedRowsEqualARebuild) {
  const Shipped shipped;
  const std::string rows = unpack(kDir + "/pairs.jsonl.gz");
  for (const int index : {1, kDemoTrainClients + 2}) {
    const DemoClient client =
        make_demo_client(shipped.model, shipped.tokenizer, shipped.chat, kShippedSeed, index);
    EXPECT_EQ(client.name, index == 1 ? "client-01" : "new-02");
    EXPECT_EQ(client.pairs.size(), index == 1 ? 40U : 44U);
    std::set<std::string> shipped_rows;
    std::istringstream lines(rows);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"client\":\"" + client.name + "\"") != std::string::npos) {
        shipped_rows.insert(line);
      }
    }
    // All of them on the kind of processor that made the file; elsewhere another rounding may flip
    // a sampled token now and then.
    std::size_t equal = 0;
    std::istringstream rebuilt(data::demo::jsonl_rows(client.name, client.pairs));
    for (std::string line; std::getline(rebuilt, line);) {
      equal += shipped_rows.count(line);
    }
    EXPECT_GE(static_cast<double>(equal), 0.9 * static_cast<double>(shipped_rows.size()));
    RecordProperty(client.name, static_cast<int>(shipped_rows.size() - equal));
  }
}

TEST(DemoPairs, ShippedModelSpeaksTheGrammar) {
  const Shipped shipped;
  std::vector<model::GenerationRequest> requests;
  std::vector<data::demo::Prompt> prompts;
  CounterRng rng({9, Purpose::kTest, 0, 0, 0});
  for (std::uint64_t key = 0; key < 200; ++key) {
    prompts.push_back(data::demo::sample_prompt(rng, data::demo::PromptPool::kHeldOut));
    const std::string text = data::demo::render(prompts.back());
    requests.push_back({shipped.chat.encode_prompt(shipped.tokenizer, {{"user", text}}), key});
  }
  model::GenerationOptions options;
  options.seed = 9;
  options.stop_ids = shipped.chat.stop_ids();
  int parsed = 0;
  int num_steps = 0;
  int num_relevant = 0;
  const auto responses = shipped.model.generate(requests, {}, options);
  for (std::size_t r = 0; r < responses.size(); ++r) {
    const auto answer = data::demo::parse_answer(shipped.tokenizer.decode(responses[r]));
    if (answer) {
      const data::demo::Features f = data::demo::features(prompts[r], *answer);
      ++parsed;
      num_steps += f.num_steps;
      num_relevant += f.num_relevant;
    }
  }
  EXPECT_GE(parsed, 180);
  // (action, object) pairs it never saw: chance would be (1/16) (1/32)
  EXPECT_GT(num_relevant, num_steps / 2);
}

TEST(DemoPairs, TextOfAllClients) {
  DemoClient client;
  client.name = "client-00";
  client.preference = {0.7, 0.1, 0.125, 0.075};
  EXPECT_EQ(preferences_csv({&client, 1}),
            "client,helpfulness,harmlessness,brevity,courtesy\n"
            "client-00,0.700000,0.100000,0.125000,0.075000\n");
}

}  // namespace
}  // namespace apo::cli
