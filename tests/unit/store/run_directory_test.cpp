#include "apo/store/run_directory.hpp"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "support/scratch.hpp"
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::store {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

const std::string kConfiguration = "[phase1]\nrounds = 200\n[runtime]\nseed = 7\n";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

RunDirectory open_run(const fs::path& dir, int keep = 3) {
  CheckpointOptions options;
  options.keep = keep;
  return RunDirectory::open(dir, kConfiguration, options);
}

Document state_of(std::int64_t round) {
  Document document;
  document.attributes[""]["round"] = round;
  document.arrays["adapter"] = {
      std::vector<float>(1000, static_cast<float>(round)), {1000}, "", "", {}};
  return document;
}
std::int64_t round_of(const Document& document) {
  return std::get<std::int64_t>(document.attribute("", "round"));
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

template <class F>
std::pair<Fault, std::string> thrown_by(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return {error.fault(), error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Fault::kInternal, ""};
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RunDirectory, StartsEmpty) {
  Scratch scratch;
  RunDirectory run = open_run(scratch / "deep/run");
  EXPECT_EQ(run.path(), scratch / "deep/run");
  EXPECT_EQ(run.generation(), 0);
  EXPECT_FALSE(run.load_checkpoint().has_value());
  EXPECT_FALSE(run.finished());
  EXPECT_EQ(run.metrics_size(), 0);
  EXPECT_TRUE(contains(text_of(scratch / "deep/run/configuration.ini"), kConfiguration));
}

TEST(RunDirectory, KeepsTheLastKCheckpoints) {
  Scratch scratch;
  {
    RunDirectory run = open_run(scratch / "run", 2);
    for (int t = 1; t <= 5; ++t) {
      run.publish_checkpoint(state_of(t * 10));
      EXPECT_EQ(run.generation(), t);
    }
    EXPECT_EQ(names_in(scratch / "run/checkpoints"),
              (std::vector<std::string>{"checkpoint-000004.h5", "checkpoint-000005.h5"}));
  }
  RunDirectory again = open_run(scratch / "run", 2);
  const auto loaded = again.load_checkpoint();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(round_of(*loaded), 50);
  EXPECT_EQ(again.generation(), 5);
  again.publish_checkpoint(state_of(60));
  EXPECT_EQ(again.generation(), 6);
}

TEST(RunDirectory, ADamagedCheckpointFallsBackAndIsLeftAlone) {
  Scratch scratch;
  {
    RunDirectory run = open_run(scratch / "run");
    for (int t = 1; t <= 3; ++t) {
      run.publish_checkpoint(state_of(t));
    }
  }
  const fs::path newest = scratch / "run/checkpoints/checkpoint-000003.h5";
  std::string bytes = text_of(newest);
  bytes[bytes.size() / 2] ^= 4;
  std::ofstream(newest, std::ios::binary) << bytes;

  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  RunDirectory run = open_run(scratch / "run", 2);
  const auto loaded = run.load_checkpoint();
  const std::string output =
      testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(output, "checkpoint-000003.h5")) << output;
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(round_of(*loaded), 2);
  EXPECT_EQ(run.generation(), 2);
  run.publish_checkpoint(state_of(4));  // never over the damaged one, and it does not count
  EXPECT_EQ(run.generation(), 4);
  EXPECT_EQ(names_in(scratch / "run/checkpoints"),
            (std::vector<std::string>{"checkpoint-000002.h5", "checkpoint-000003.h5",
                                      "checkpoint-000004.h5"}));
  EXPECT_TRUE(bytes == text_of(newest));
}

TEST(RunDirectory, AFileThatNobodyHasReadDoesNotCountAmongTheKept) {
  Scratch scratch;
  {
    RunDirectory run = open_run(scratch / "run");
    for (int t = 1; t <= 3; ++t) {
      run.publish_checkpoint(state_of(t));
    }
  }
  std::ofstream(scratch / "run/checkpoints/checkpoint-000002.h5") << "nonsense";
  RunDirectory run = open_run(scratch / "run");
  ASSERT_TRUE(run.load_checkpoint().has_value());  // the third: the second is not looked at
  run.publish_checkpoint(state_of(4));
  EXPECT_TRUE(fs::exists(scratch / "run/checkpoints/checkpoint-000001.h5"));
  run.publish_checkpoint(state_of(5));
  EXPECT_EQ(names_in(scratch / "run/checkpoints"),
            (std::vector<std::string>{"checkpoint-000003.h5", "checkpoint-000004.h5",
                                      "checkpoint-000005.h5"}));
}

TEST(RunDirectory, AWholeFileThatIsNotAcceptedFallsBack) {
  Scratch scratch;
  RunDirectory run = open_run(scratch / "run");
  run.publish_checkpoint(state_of(1));
  run.publish_checkpoint(state_of(2));
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto loaded = run.load_checkpoint([](const Document& document) {
    if (round_of(document) == 2) {
      throw std::out_of_range("no state");
    }
  });
  const std::string output =
      testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(round_of(*loaded), 1);
  EXPECT_TRUE(contains(output, "checkpoint-000002.h5: whole, but no checkpoint of this run"))
      << output;
}

TEST(RunDirectory, WithoutAGoodCheckpointThereIsNone) {
  Scratch scratch;
  RunDirectory run = open_run(scratch / "run");
  std::ofstream(scratch / "run/checkpoints/checkpoint-000009.h5") << "nonsense";
  std::ofstream(scratch / "run/checkpoints/checkpoint-x.h5") << "not a checkpoint's name";
  EXPECT_FALSE(run.load_checkpoint().has_value());
}

TEST(RunDirectory, RemovesItsStaleTemporaries) {
  Scratch scratch;
  { RunDirectory run = open_run(scratch / "run"); }
  std::ofstream(scratch / "run/.tmp-1-run.h5") << "x";
  std::ofstream(scratch / "run/checkpoints/.tmp-2-checkpoint-000001.h5") << "x";
  std::ofstream(scratch / "run/notes.txt") << "a user's file";
  RunDirectory run = open_run(scratch / "run");
  EXPECT_FALSE(fs::exists(scratch / "run/.tmp-1-run.h5"));
  EXPECT_TRUE(fs::is_empty(scratch / "run/checkpoints"));
  EXPECT_TRUE(fs::exists(scratch / "run/notes.txt"));
}

TEST(RunDirectory, OneJobPerFolder) {
  Scratch scratch;
  std::optional<RunDirectory> first(open_run(scratch / "run"));
  const auto [fault, text] = thrown_by([&] { (void)open_run(scratch / "run"); });
  EXPECT_EQ(fault, Fault::kBackend);
  EXPECT_TRUE(contains(text, "another job")) << text;
  EXPECT_TRUE(contains(text, "pid " + std::to_string(getpid()))) << text;
  EXPECT_TRUE(contains(text, "host ")) << text;
  RunDirectory moved = std::move(*first);
  first.reset();
  EXPECT_THROW((void)open_run(scratch / "run"), Error) << "the lock moves along";
  { RunDirectory last = std::move(moved); }
  (void)open_run(scratch / "run");
}

TEST(RunDirectory, AKilledJobLeavesNoLock) {
  Scratch scratch;
  const pid_t child = fork();
  if (child == 0) {
    RunDirectory run = open_run(scratch / "run");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(contains(text_of(scratch / "run/lock"), std::to_string(child)));
  (void)open_run(scratch / "run");
}

TEST(RunDirectory, AnotherConfigurationIsRefusedKeyByKey) {
  Scratch scratch;
  { RunDirectory run = open_run(scratch / "run"); }
  const auto [fault, text] = thrown_by([&] {
    (void)RunDirectory::open(scratch / "run",
                             "[phase1]\nrounds = 300\nlocal_steps = 2\n[runtime]\n", {});
  });
  EXPECT_EQ(fault, Fault::kConfig);
  EXPECT_TRUE(contains(text, "phase1.rounds: '200' in the folder, '300' now")) << text;
  EXPECT_TRUE(contains(text, "phase1.local_steps: absent in the folder, '2' now")) << text;
  EXPECT_TRUE(contains(text, "runtime.seed: '7' in the folder, absent now")) << text;
  (void)open_run(scratch / "run");  // refusing has left everything as it was, the lock too
}

TEST(RunDirectory, AConfigurationChangedByHandIsSeen) {
  Scratch scratch;
  { RunDirectory run = open_run(scratch / "run"); }
  const fs::path path = scratch / "run/configuration.ini";
  std::string text = text_of(path);
  text.replace(text.find("200"), 3, "300");
  std::ofstream(path) << text;
  const auto [fault, message] = thrown_by([&] { (void)open_run(scratch / "run"); });
  EXPECT_EQ(fault, Fault::kConfig);
  EXPECT_TRUE(contains(message, "changed after the run began")) << message;
}

TEST(RunDirectory, MetricsAreCutToTheCheckpoint) {
  Scratch scratch;
  RunDirectory run = open_run(scratch / "run");
  const fs::path path = scratch / "run/metrics.jsonl";
  run.append_metrics(R"({"round":1})");
  run.append_metrics(R"({"round":2})");
  const std::int64_t kept = run.metrics_size();
  EXPECT_EQ(kept, 24);
  run.append_metrics(R"({"round":3})");
  EXPECT_EQ(text_of(path), "{\"round\":1}\n{\"round\":2}\n{\"round\":3}\n");
  run.truncate_metrics(kept);
  EXPECT_EQ(text_of(path), "{\"round\":1}\n{\"round\":2}\n");
  run.append_metrics(R"({"round":4})");
  EXPECT_EQ(text_of(path), "{\"round\":1}\n{\"round\":2}\n{\"round\":4}\n");
  run.truncate_metrics(1000);  // shorter than promised: nothing is invented
  EXPECT_EQ(run.metrics_size(), 36);
  run.truncate_metrics(20);  // inside a line: the line goes
  EXPECT_EQ(text_of(path), "{\"round\":1}\n");
  run.truncate_metrics(0);
  EXPECT_EQ(text_of(path), "");
  EXPECT_THROW(run.append_metrics("two\nlines"), Error);
}

TEST(RunDirectory, ATornLastLineIsDroppedAtTheStart) {
  Scratch scratch;
  {
    RunDirectory run = open_run(scratch / "run");
    run.append_metrics("{\"round\":1}");
  }
  const fs::path path = scratch / "run/metrics.jsonl";
  std::ofstream(path, std::ios::app) << std::string(10'000, 'x');  // longer than one block
  RunDirectory run = open_run(scratch / "run");
  EXPECT_EQ(text_of(path), "{\"round\":1}\n");
}

TEST(RunDirectory, StatusSaysWhetherTheRunIsComplete) {
  Scratch scratch;
  {
    RunDirectory run = open_run(scratch / "run");
    run.write_status(R"({"state": "running", "note": "not \"complete\" yet", "x": "complete"})");
    EXPECT_FALSE(run.finished());
    run.write_status(R"({"round": 3, "state" : "complete"})");
    EXPECT_FALSE(run.finished());  // its results are not there
    run.publish_run_file(state_of(3));
    EXPECT_TRUE(run.finished());
    std::ofstream(scratch / "run/run.h5", std::ios::app) << "torn";
    EXPECT_FALSE(run.finished());
    run.publish_run_file(state_of(3));
  }
  EXPECT_TRUE(open_run(scratch / "run").finished());
  EXPECT_EQ(text_of(scratch / "run/status.json"), "{\"round\": 3, \"state\" : \"complete\"}\n");
}

TEST(RunDirectory, TheRunFileIsReplacedWhole) {
  Scratch scratch;
  RunDirectory run = open_run(scratch / "run");
  run.publish_run_file(state_of(1));
  run.publish_run_file(state_of(2));
  EXPECT_EQ(round_of(read_document(scratch / "run/run.h5")), 2);
  for (const std::string& name : names_in(scratch / "run")) {
    EXPECT_FALSE(name.starts_with(".tmp-")) << name;
  }
}

}  // namespace
}  // namespace apo::store
