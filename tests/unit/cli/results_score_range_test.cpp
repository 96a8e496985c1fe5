#include "results_score_range.hpp"

#include <cstring>
#include <fstream>

#include "sample_runs.hpp"
#include "support/scratch.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

using test::sample_run;

FrozenRange sample_range() {
  return {{"helpfulness", "brevity"}, "exp(-loss)", {{-1.0 / 3.0, 0.1}, {5e-324, 1.7e308}}, 12};
}

TEST(ScoreRangeFile, KeepsEveryBit) {
  const apo::test::Scratch scratch;
  const FrozenRange written = sample_range();
  write_score_range(scratch / "range.json", written);
  const FrozenRange read = read_score_range(scratch / "range.json");
  EXPECT_EQ(read.objectives, written.objectives);
  EXPECT_EQ(read.score, "exp(-loss)");
  EXPECT_EQ(read.num_solutions, 12);
  ASSERT_EQ(read.range.size(), 2U);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(std::memcmp(&read.range[j], &written.range[j], sizeof(metrics::ScoreRange)), 0);
  }
  std::ifstream file(scratch / "range.json");
  const auto document = nlohmann::json::parse(file);  // as another reader sees it
  EXPECT_EQ(document["ranges"][0]["objective"], "helpfulness");
  EXPECT_EQ(document["ranges"][0]["max"], 0.1);
}

/// Message of the refusal, empty when it was read.
std::string refusal(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
  try {
    static_cast<void>(read_score_range(file));
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kData);
    return error.what();
  }
  return {};
}

TEST(ScoreRangeFile, RefusesWhatItIsNot) {
  const apo::test::Scratch scratch;
  const auto file = scratch / "range.json";
  write_score_range(file, sample_range());
  std::ifstream stream(file);
  const nlohmann::json good = nlohmann::json::parse(stream);
  EXPECT_EQ(refusal(file, good.dump()), "");
  const auto with = [&](const std::string& pointer, const nlohmann::json& value) {
    nlohmann::json changed = good;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    return refusal(file, changed.dump());
  };
  EXPECT_NE(refusal(file, "{\"format\": ").find("expected a JSON object"), std::string::npos);
  EXPECT_NE(refusal(file, "[1]").find("expected a JSON object"), std::string::npos);
  EXPECT_NE(with("/format_version", 2).find("found 'apo score range' version 2"),
            std::string::npos);
  EXPECT_NE(with("/score", 3).find("expected \"score\" with a text, found 3"), std::string::npos);
  EXPECT_NE(with("/ranges", nlohmann::json::array()).find("\"ranges\""), std::string::npos);
  EXPECT_NE(with("/ranges/0", 1).find("expected objects in \"ranges\""), std::string::npos);
  EXPECT_NE(with("/ranges/1/min", nullptr).find("a finite number, found null"), std::string::npos);
  EXPECT_NE(with("/ranges/0/min", 0.2).find("'helpfulness' has min 0.2 above max 0.1"),
            std::string::npos);
  EXPECT_NE(with("/num_solutions", -1).find("num_solutions"), std::string::npos);
  EXPECT_THROW(static_cast<void>(read_score_range(scratch / "none.json")), Error);
  EXPECT_THROW(write_score_range(scratch / "no" / "folder.json", sample_range()), Error);
}

TEST(ScoreRangeOfRuns, IsOverAllMethodsSeedsStagesAndCheckpoints) {
  const std::vector<RunResults> runs = {
      sample_run("base", 1, {{"base", 0, {.4, .2}}}),
      sample_run("apo", 2,
                 {{"initialiser", 0, {.3, .9}},
                  {"adapted", 1, {.8, .5}},
                  {.stage = "adapted", .client = 1, .solution = {.1, .6}, .start_round = 9}}),
  };
  const auto range = score_range_of(runs);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->objectives, runs[0].objectives);
  EXPECT_EQ(range->score, "exp(-loss)");
  EXPECT_EQ(range->num_solutions, 4);
  EXPECT_EQ(range->range[0].low, .1);
  EXPECT_EQ(range->range[0].high, .8);
  EXPECT_EQ(range->range[1].low, .2);
  EXPECT_EQ(range->range[1].high, .9);
  EXPECT_FALSE(score_range_of({sample_run("apo", 1, {{"adapted", 0}})})) << "losses only";
}

}  // namespace
}  // namespace apo::cli
