#include "apo/config/run_config.hpp"

#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "apo/config/reference.hpp"
#include "apo/core/error.hpp"

namespace apo::config {
namespace {

using Overrides = std::vector<std::pair<std::string, std::string>>;

/// The smallest configuration that is complete.
constexpr const char* kMinimal =
    "[model]\npath = models/tiny\n"
    "[data]\nfiles = a.jsonl\nobjectives = helpfulness,brevity\n"
    "[runtime]\nseed = 1\n";

class RunConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() /
            fmt::format("apo-config-{}-{}.ini", ::getpid(),
                        ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { std::filesystem::remove(file_); }

  void write(const std::string& text) const { std::ofstream(file_) << text; }

  RunConfig load(const std::string& text, const Overrides& overrides = {}) const {
    write(text);
    return load_run_config(file_, overrides);
  }

  /// The error's lines with the file's path cut to "FILE".
  std::vector<std::string> problems(const std::string& text,
                                    const Overrides& overrides = {}) const {
    try {
      load(text, overrides);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kConfig);
      std::vector<std::string> lines;
      std::string rest = error.what();
      for (std::size_t at; (at = rest.find(file_.string())) != std::string::npos;) {
        rest.replace(at, file_.string().size(), "FILE");
      }
      for (std::size_t end; (end = rest.find('\n')) != std::string::npos;) {
        lines.push_back(rest.substr(0, end));
        rest.erase(0, end + 1);
      }
      lines.push_back(rest);
      return lines;
    }
    return {};
  }

  std::filesystem::path file_;
};

TEST_F(RunConfigTest, DefaultsFileThenCommandLine) {
  const RunConfig config =
      load(std::string(kMinimal) + "[phase1]\nrounds = 7 # seven\nbatch_size=4\n",
           {{"phase1.batch_size", "2"}, {"lora.rank", "3"}, {"lora.rank", "5"}});
  EXPECT_EQ(config.phase1.rounds, 7);
  EXPECT_EQ(config.phase1.batch_size, 2);
  EXPECT_EQ(config.lora.rank, 5) << "the last override wins";
  EXPECT_EQ(config.phase1.local_steps, 2) << "default";
  EXPECT_EQ(config.runtime.seed, 1U);
  EXPECT_EQ(config.data.objectives, (std::vector<std::string>{"helpfulness", "brevity"}));
}

TEST_F(RunConfigTest, AllErrorsAtOnceWithTheirLines) {
  const auto lines = problems(
      "[model]\n"             // 1
      "path = models/tiny\n"  // 2
      "dtyp = float32\n"      // 3 unknown
      "# comment\n"           // 4
      "[phase1]\n"            // 5
      "rounds = many\n"       // 6 malformed
      "batch_size = 8\n"      // 7
      "batch_size = 9\n"      // 8 duplicate
      "what is this\n"        // 9 no INI
      "[data]\n"              // 10
      "objectives = a,b\n"    // 11
      "on_bad_row = eror\n",  // 12
      {{"phase2.roundz", "3"}, {"lora.dropout", "1.5"}});
  ASSERT_EQ(lines.size(), 9U) << fmt::format("{}", lines.empty() ? "" : lines[0]);
  EXPECT_EQ(lines[0], "FILE:9: expected [section] or key = value, found 'what is this'");
  EXPECT_EQ(lines[1], "FILE:3: unknown key 'model.dtyp'; did you mean 'model.dtype'?");
  EXPECT_EQ(lines[2], "FILE:6: phase1.rounds: expected an integer in [0, 1000000], found 'many'");
  EXPECT_EQ(lines[3], "FILE:8: 'phase1.batch_size' was set before, in line 7");
  EXPECT_EQ(lines[4],
            "FILE:12: data.on_bad_row: expected one of error|skip, found 'eror'; did you mean "
            "'error'?");
  EXPECT_EQ(lines[5], "command line: unknown key 'phase2.roundz'; did you mean 'phase2.rounds'?");
  EXPECT_EQ(lines[6],
            "command line: lora.dropout: expected a real number in [0, 0.99], found '1.5'");
  EXPECT_EQ(lines[7].rfind("missing required key 'data.files'", 0), 0U) << lines[7];
  EXPECT_EQ(lines[8].rfind("missing required key 'runtime.seed'", 0), 0U) << lines[8];
}

TEST_F(RunConfigTest, KeyInTheWrongSectionFindsItsHome) {
  const auto lines = problems(std::string(kMinimal) + "[clusters]\nlocal_steps = 3\n");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0],
            "FILE:9: unknown key 'clusters.local_steps'; did you mean "
            "'phase1.local_steps'?")
      << lines[0];
}

TEST_F(RunConfigTest, KeyWithoutSectionIsUnknown) {
  const auto lines = problems("rounds = 3\n" + std::string(kMinimal));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].rfind("FILE:1: unknown key 'rounds'", 0), 0U) << lines[0];
}

TEST_F(RunConfigTest, MissingFile) {
  try {
    (void)load_run_config("no/such.ini", {});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kConfig);
    EXPECT_STREQ(error.what(), "no/such.ini: no such configuration file");
  }
}

struct Combination {
  const char* name;
  Overrides overrides;
  const char* expected;  ///< must occur in the only message; nullptr: must load
};

class RunConfigCombination : public RunConfigTest,
                             public ::testing::WithParamInterface<Combination> {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() /
            fmt::format("apo-config-{}-{}.ini", ::getpid(), GetParam().name);
  }
};

TEST_P(RunConfigCombination, IsRefusedOrLoads) {
  const auto lines = problems(kMinimal, GetParam().overrides);
  if (GetParam().expected == nullptr) {
    EXPECT_TRUE(lines.empty()) << lines[0];
    return;
  }
  ASSERT_EQ(lines.size(), 1U) << (lines.empty() ? "nothing refused" : lines.back());
  EXPECT_NE(lines[0].find(GetParam().expected), std::string::npos) << lines[0];
}

INSTANTIATE_TEST_SUITE_P(
    All, RunConfigCombination,
    ::testing::Values(
        Combination{"prompt_fills_all",
                    {{"data.max_prompt_length", "64"}, {"data.max_length", "64"}},
                    "leaves no room for a response"},
        Combination{
            "prompt_fits", {{"data.max_prompt_length", "63"}, {"data.max_length", "64"}}, nullptr},
        Combination{"start_round_beyond",
                    {{"phase1.rounds", "5"}, {"phase2.start_rounds", "5,6"}},
                    "names round 6, but phase1.rounds = 5"},
        Combination{"rates_per_cluster",
                    {{"clustering.budget", "3"}, {"phase2.server_learning_rate", "1e-5,2e-5,3e-5"}},
                    nullptr},
        Combination{"rates_of_other_length",
                    {{"clustering.budget", "3"}, {"phase2.server_learning_rate", "1e-5,2e-5"}},
                    "has 2 values: expected 1, or one per cluster (3)"},
        Combination{"rates_without_clusters",
                    {{"clustering.method", "none"}, {"phase2.server_weight_decay", "0,0.1"}},
                    "expected 1, or one per cluster (1)"},
        Combination{
            "rates_with_open_budget",
            {{"clustering.budget_policy", "raise"}, {"phase2.server_learning_rate", "1,1,1,1"}},
            "leaves the number of clusters open"},
        Combination{"rates_empty", {{"phase2.server_learning_rate", ""}}, "is empty"},
        Combination{"rule_knows_objectives", {{"evaluate.reward", "rule"}}, nullptr},
        Combination{"rule_refuses_objective",
                    {{"evaluate.reward", "rule"}, {"data.objectives", "brevity,honesty"}},
                    "data.objectives names 'honesty'"},
        Combination{"fedavg_with_lp", {{"method.name", "fedavg"}}, nullptr},
        Combination{"fedavg", {{"method.name", "fedavg"}, {"direction.solver", "fixed"}}, nullptr},
        Combination{"base", {{"method.name", "base"}}, nullptr},
        Combination{"batch_below_objectives",
                    {{"phase2.inner_batch_size", "1"}},
                    "phase2.inner_batch_size = 1 cannot hold one pair of each of 2"},
        Combination{
            "shots_beyond_pool", {{"adapt.shots", "30"}}, "more pairs than data.adapt_pairs = 20"},
        Combination{
            "nothing_to_evaluate", {{"data.pairs_per_client", "20"}}, "nothing to be evaluated on"},
        Combination{"nccl_on_cpu",
                    {{"runtime.collectives", "nccl"}, {"runtime.device", "cpu"}},
                    "moves GPU memory"}),
    [](const auto& combination) { return std::string(combination.param.name); });

TEST_F(RunConfigTest, AWrongValueDoesNotCauseFollowUpErrors) {
  // 'data.max_length' stays at its default 256 here; blaming the prompt for that would mislead.
  const auto lines =
      problems(kMinimal, {{"data.max_length", "lots"}, {"data.max_prompt_length", "4000"}});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("data.max_length"), std::string::npos);
}

TEST_F(RunConfigTest, ToIniReadsBackEqual) {
  const RunConfig config = load(kMinimal, {{"phase1.learning_rate", "0.30000000000000004"},
                                           {"phase2.start_rounds", "130,150"},
                                           {"phase2.server_learning_rate", "1e-5,2e-5,3e-5,4e-5"},
                                           {"model.path", "models/with blank = sign"},
                                           {"lora.targets", "q_proj,v_proj"},
                                           {"runtime.seed", "18446744073709551615"}});
  const std::string ini = to_ini(config);
  const RunConfig again = load(ini);
  EXPECT_EQ(to_ini(again), ini);
  EXPECT_EQ(again.phase1.learning_rate, 0.30000000000000004);
  EXPECT_EQ(again.model.path, "models/with blank = sign");
  EXPECT_EQ(again.lora.targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(again.phase2.start_rounds, (std::vector<int>{130, 150}));
  EXPECT_EQ(again.runtime.seed, 18446744073709551615ULL);
}

TEST_F(RunConfigTest, EveryKeyIsInIniAndReference) {
  RunConfig config;
  const FieldTable table = make_field_table(config);
  EXPECT_GT(table.fields().size(), 60U);
  const std::string text = options_text();
  const std::string markdown = options_markdown();
  const std::string ini = to_ini(config);
  for (const Field& field : table.fields()) {
    const std::string name = field.key.substr(field.key.find('.') + 1);
    EXPECT_NE(text.find("--" + field.key + " "), std::string::npos) << field.key;
    EXPECT_NE(markdown.find("| `" + name + "` |"), std::string::npos) << field.key;
    EXPECT_NE(ini.find("\n" + name + " ="), std::string::npos) << field.key;
    EXPECT_FALSE(field.help.empty()) << field.key;
  }
}

}  // namespace
}  // namespace apo::config
