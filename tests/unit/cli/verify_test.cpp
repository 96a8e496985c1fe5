// apo verify on folders made by the store itself, whole and damaged in known ways.

#include <fstream>
#include <functional>
#include <iterator>

#include "support/scratch.hpp"
#include "verify_directory.hpp"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::cli {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

const std::string kConfiguration = "[phase1]\nrounds = 4\n";

/// State after `rounds` rounds of `clusters` clusters, as the recorder writes it.
store::Document state_after(std::int64_t rounds, std::int64_t clusters, std::int64_t metrics) {
  store::Document document;
  document.attributes["state"] = {
      {"rounds_done", rounds}, {"rounds_total", std::int64_t{4}}, {"metrics_size", metrics}};
  Table table;
  table.integer("round", "", "round");
  for (std::int64_t k = 0; k < rounds * clusters; ++k) {
    table.push("round", k / clusters);
  }
  document.put_table("phase1/rounds", table, "row");
  document.arrays["state/parameters"] = {std::vector<float>(300, 0.5F), {3, 100}, "", "", {}};
  return document;
}

/// A run of 2 clusters that was stopped after `rounds` rounds with a checkpoint after each.
void make_run(const fs::path& dir, int rounds, const std::string& state) {
  store::RunDirectory run = store::RunDirectory::open(dir, kConfiguration, {});
  for (int r = 1; r <= rounds; ++r) {
    run.append_metrics(R"({"round":)" + std::to_string(r - 1) + R"(,"cluster":0})");
    run.append_metrics(R"({"round":)" + std::to_string(r - 1) + R"(,"cluster":1})");
    run.publish_checkpoint(state_after(r, 2, run.metrics_size()));
  }
  run.publish_run_file(state_after(rounds, 2, 0));
  run.write_status(R"({"state": ")" + state + R"(", "round": )" + std::to_string(rounds) + "}");
}

void change(const fs::path& path, const std::function<void(std::string&)>& edit) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  in.close();
  edit(bytes);
  std::ofstream(path, std::ios::binary) << bytes;
}
void flip(const fs::path& path) {
  change(path, [](std::string& bytes) { bytes[bytes.size() / 2] ^= 8; });
}

bool mentions(const std::vector<std::string>& texts, const std::string& part) {
  for (const std::string& text : texts) {
    if (text.find(part) != std::string::npos) {
      return true;
    }
  }
  return false;
}

fs::path checkpoint(const Scratch& scratch, int generation) {
  return scratch / ("run/checkpoints/checkpoint-00000" + std::to_string(generation) + ".h5");
}

TEST(Verify, AStoppedRunGoesOnFromItsNewestCheckpoint) {
  Scratch scratch;
  make_run(scratch / "run", 3, "stopped");
  const DirectoryReport report = verify_directory(scratch / "run");
  EXPECT_EQ(report.state, "stopped");
  EXPECT_EQ(report.status_round, 3);
  EXPECT_FALSE(report.lock_held);
  ASSERT_EQ(report.checkpoints.size(), 3U);
  EXPECT_EQ(report.resume, 2);
  EXPECT_EQ(report.checkpoints[2].rounds, 3);
  EXPECT_EQ(report.checkpoints[2].total_rounds, 4);
  EXPECT_EQ(report.checkpoints[2].rows, 6);
  EXPECT_EQ(report.metrics.lines, 6);
  EXPECT_TRUE(report.problems.empty()) << report.problems[0];
  EXPECT_TRUE(report.notes.empty()) << report.notes[0];
  const std::string text = verify_text(report);
  EXPECT_NE(text.find("from checkpoint 3, after 3 of 4 rounds"), std::string::npos) << text;
}

TEST(Verify, ACompleteRunNeedsNothing) {
  Scratch scratch;
  make_run(scratch / "run", 3, "complete");
  const DirectoryReport report = verify_directory(scratch / "run");
  EXPECT_TRUE(report.complete());
  EXPECT_TRUE(report.problems.empty());
  EXPECT_NE(verify_text(report).find("nothing to do"), std::string::npos);
  const auto json = nlohmann::json::parse(verify_json(report));
  EXPECT_TRUE(json.at("resume").is_null());
  EXPECT_EQ(json.at("state"), "complete");
}

TEST(Verify, ACompleteRunWhoseResultsAreDamagedMakesThemAgain) {
  for (const bool missing : {false, true}) {
    Scratch scratch;
    make_run(scratch / "run", 3, "complete");
    if (missing) {
      fs::remove(scratch / "run/run.h5");
    } else {
      std::ofstream(scratch / "run/run.h5", std::ios::app) << "torn";
    }
    const DirectoryReport report = verify_directory(scratch / "run");
    EXPECT_EQ(report.problems.size(), 1U);
    EXPECT_NE(verify_text(report).find("from checkpoint 3, after 3 of"), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(verify_json(report)).at("resume").at("generation"), 3);
  }
}

TEST(Verify, ADamagedNewestCheckpointIsAProblemAndAnOlderOneANote) {
  Scratch scratch;
  make_run(scratch / "run", 3, "stopped");
  flip(checkpoint(scratch, 1));
  const DirectoryReport old = verify_directory(scratch / "run");
  EXPECT_TRUE(old.problems.empty());
  EXPECT_TRUE(mentions(old.notes, "checkpoint 1 is damaged"));
  EXPECT_EQ(old.resume, 2);
  flip(checkpoint(scratch, 3));
  const DirectoryReport report = verify_directory(scratch / "run");
  EXPECT_TRUE(mentions(report.problems, "checkpoint 3 is damaged"));
  EXPECT_EQ(report.resume, 1);
  EXPECT_TRUE(mentions(report.notes, "2 lines are newer than the checkpoint"));
  const auto json = nlohmann::json::parse(verify_json(report));
  EXPECT_EQ(json.at("resume").at("generation"), 2);
  EXPECT_EQ(json.at("resume").at("round"), 2);
  EXPECT_FALSE(json.at("checkpoints").at(2).at("ok"));
  flip(checkpoint(scratch, 2));
  const DirectoryReport none = verify_directory(scratch / "run");
  EXPECT_EQ(none.resume, -1);
  EXPECT_EQ(none.problems.size(), 3U);
  EXPECT_NE(verify_text(none).find("from the beginning"), std::string::npos);
}

TEST(Verify, AFileThatIsWholeButNoStateIsNotUsable) {
  Scratch scratch;
  make_run(scratch / "run", 2, "stopped");
  store::Document other;
  other.attributes["state"]["something"] = std::int64_t{1};
  store::write_document(checkpoint(scratch, 3), other);
  const DirectoryReport report = verify_directory(scratch / "run");
  EXPECT_EQ(report.resume, 1);
  EXPECT_TRUE(mentions(report.problems, "not the state of a run"));
}

TEST(Verify, MetricsAreHeldAgainstTheCheckpoint) {
  Scratch scratch;
  const fs::path metrics = scratch / "run/metrics.jsonl";
  make_run(scratch / "run", 2, "stopped");
  std::ofstream(metrics, std::ios::app) << R"({"round":2,"cluster":0})"
                                        << "\n{\"rou";
  const DirectoryReport ahead = verify_directory(scratch / "run");
  EXPECT_TRUE(ahead.problems.empty());
  EXPECT_EQ(ahead.metrics.torn_bytes, 5);
  EXPECT_TRUE(mentions(ahead.notes, "torn last line"));
  EXPECT_TRUE(mentions(ahead.notes, "1 lines are newer"));

  change(metrics, [](std::string& bytes) { bytes.resize(60); });
  EXPECT_TRUE(mentions(verify_directory(scratch / "run").problems, "lines are missing"));
  fs::remove(metrics);
  EXPECT_TRUE(mentions(verify_directory(scratch / "run").problems, "metrics.jsonl is missing"));
}

TEST(Verify, ADamagedLineAndALineTooManyAreSeen) {
  Scratch scratch;
  make_run(scratch / "run", 2, "stopped");
  const fs::path metrics = scratch / "run/metrics.jsonl";
  change(metrics, [](std::string& bytes) { bytes[3] = '\n'; });
  const DirectoryReport report = verify_directory(scratch / "run");
  EXPECT_TRUE(mentions(report.problems, "line 1 is not a JSON object"));
  EXPECT_TRUE(mentions(report.problems, "5 lines up to checkpoint 2, which holds 4"));
}

TEST(Verify, RunFileConfigurationAndStatus) {
  Scratch scratch;
  make_run(scratch / "run", 3, "complete");
  flip(scratch / "run/run.h5");
  EXPECT_TRUE(mentions(verify_directory(scratch / "run").problems, "run.h5 is damaged"));
  fs::remove(scratch / "run/run.h5");
  EXPECT_TRUE(mentions(verify_directory(scratch / "run").problems, "run.h5 is missing"));
  std::ofstream(scratch / "run/status.json") << "{";
  EXPECT_TRUE(mentions(verify_directory(scratch / "run").problems, "status.json is damaged"));
  EXPECT_EQ(verify_directory(scratch / "run").state, "interrupted");
  std::ofstream(scratch / "run/configuration.ini", std::ios::app) << "x = 1\n";
  EXPECT_TRUE(mentions(verify_directory(scratch / "run").problems, "configuration.ini"));
  fs::remove(scratch / "run/configuration.ini");
  EXPECT_THROW((void)verify_directory(scratch / "run"), Error);
  EXPECT_THROW((void)verify_directory(scratch / "nothing"), Error);
}

TEST(Verify, ARunningJobIsReadWithoutTouchingIt) {
  Scratch scratch;
  make_run(scratch / "run", 2, "running");
  EXPECT_EQ(verify_directory(scratch / "run").state, "interrupted");
  std::ofstream(scratch / "run/checkpoints/.tmp-9-checkpoint-000003.h5") << "half";
  const DirectoryReport killed = verify_directory(scratch / "run");
  EXPECT_EQ(killed.temporaries.size(), 1U);
  EXPECT_TRUE(mentions(killed.notes, "temporary files"));
  store::RunDirectory job = store::RunDirectory::open(scratch / "run", kConfiguration, {});
  std::ofstream(scratch / "run/metrics.jsonl", std::ios::app) << "{\"half a li";
  const DirectoryReport report = verify_directory(scratch / "run");
  EXPECT_EQ(report.state, "running");
  EXPECT_TRUE(report.lock_held);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_TRUE(report.notes.empty()) << report.notes[0];
  EXPECT_EQ(report.resume, 1);
}

TEST(Verify, AFolderThatHasNoRoundsYet) {
  Scratch scratch;
  { (void)store::RunDirectory::open(scratch / "run", kConfiguration, {}); }
  const DirectoryReport report = verify_directory(scratch / "run");
  EXPECT_EQ(report.state, "not started");
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.resume, -1);
}

}  // namespace
}  // namespace apo::cli
