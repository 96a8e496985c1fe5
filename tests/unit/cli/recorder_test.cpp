// The recorder at the end of rounds: what it asks for, what it does when it cannot write, and when
// it refuses to be requeued once more.

#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "provenance.hpp"
#include "run_recorder.hpp"
#include "stop_signals.hpp"
#include "support/mpi_world.hpp"
#include "verify_directory.hpp"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

namespace fs = std::filesystem;
using test::world;

const std::string kConfiguration = "[phase1]\nrounds = 4\n";

/// One start of a run with 4 rounds, one cluster and two objectives.
struct Job {
  explicit Job(const fs::path& dir, const store::CheckpointOptions& options = {}) {
    if (world().rank() == 0) {
      directory = std::make_unique<store::RunDirectory>(
          store::RunDirectory::open(dir, kConfiguration, options));
    }
    recorder = std::make_unique<RunRecorder>(world(), directory.get(), store::Document(), 2, 4);
    const auto found = recorder->resume();
    resumed = found.has_value();
    if (found) {
      state = *found;
    } else {
      state.parameters = {{1.0F, 2.0F}};
      state.memory = {{}};
      state.was_uniform = {0, 0};
    }
  }
  void round(bool checkpoint = true) {
    ++state.phase1_rounds;
    state.parameters[0][0] += 0.5F;
    if (directory) {
      federation::RoundReport report;
      report.round = state.phase1_rounds - 1;
      report.mean_loss = {0.5, 0.25};
      recorder->on_round(report);
      recorder->on_progress(state.phase1_rounds, 4);
    }
    if (checkpoint) {
      recorder->on_checkpoint(state);
    }
  }
  [[nodiscard]] nlohmann::json status() const { return nlohmann::json::parse(directory->status()); }

  std::unique_ptr<store::RunDirectory> directory;
  std::unique_ptr<RunRecorder> recorder;
  federation::TrainingState state;
  bool resumed = false;
};

template <class F>
std::string message_of(Fault fault, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

std::int64_t lines_in(const fs::path& path) {
  std::ifstream in(path);
  return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
}

TEST(Recorder, EveryStartIsInTheHistoryOfTheRun) {
  const fs::path dir = test::shared_scratch() / "run";
  { Job(dir).round(); }
  {
    Job second(dir);
    EXPECT_TRUE(second.resumed);
    EXPECT_EQ(second.state.phase1_rounds, 1);
    EXPECT_EQ(second.state.parameters[0][0], 1.5F) << "on every rank";
    second.round();
    second.round();
  }
  Job third(dir);
  third.round();
  if (world().rank() == 0) {
    third.recorder->publish([](store::Document& /*whole*/) {});
    const store::Document document = store::read_document(dir / "run.h5");
    EXPECT_EQ(std::get<std::vector<std::int64_t>>(document.attribute("restarts", "round")),
              (std::vector<std::int64_t>{0, 1, 3}));
    EXPECT_EQ(std::get<std::vector<std::string>>(document.attribute("restarts", "host")).size(),
              3U);
    const auto sizes =
        std::get<std::vector<std::int64_t>>(document.attribute("restarts", "world_size"));
    EXPECT_EQ(sizes, (std::vector<std::int64_t>(3, world().size())));
    const auto hosts =
        std::get<std::vector<std::string>>(document.attribute(kProvenance, "rank_host"));
    EXPECT_EQ(hosts,
              std::vector<std::string>(static_cast<std::size_t>(world().size()), world().host()));
    for (const char* name : {"compiler", "command_line", "start_utc", "end_utc", "git_revision"}) {
      EXPECT_FALSE(std::get<std::string>(document.attribute(kProvenance, name)).empty()) << name;
    }
    for (const char* name : {"mpi", "hdf5", "glpk", "pagmo", "torch", "text", "boost"}) {
      EXPECT_FALSE(std::get<std::string>(document.attribute("provenance/libraries", name)).empty())
          << name;
    }
    const DirectoryReport report = verify_directory(dir);
    EXPECT_TRUE(report.problems.empty()) << report.problems[0];
    EXPECT_EQ(report.checkpoints.back().rounds, 4);
    EXPECT_EQ(report.checkpoints.back().rows, 4);
  }
}

TEST(Recorder, AsksForACheckpointWhenTheMinutesHavePassed) {
  store::CheckpointOptions options;
  options.every_minutes = 0.001;  // 60 ms
  Job job(test::shared_scratch() / "run", options);
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  const bool root = world().rank() == 0;
  EXPECT_EQ(job.recorder->request().checkpoint, root);
  options.every_minutes = 0.0;
  job.round();
  if (root) {
    EXPECT_FALSE(job.recorder->request().stop);
  }
}

TEST(Recorder, ACheckpointThatCannotBeWrittenIsNoStop) {
  const fs::path dir = test::shared_scratch() / "run";
  Job job(dir);
  job.round();
  world().all().barrier();
  if (world().rank() == 0) {
    fs::rename(dir / "checkpoints", dir / "aside");
    std::ofstream(dir / "checkpoints") << "a file where a folder should be";
  }
  job.round();  // warned of and counted; the run goes on
  if (world().rank() == 0) {
    EXPECT_EQ(job.status().at("failed_checkpoints"), 0) << "of the heartbeat before";
    const std::string text =
        message_of(Fault::kBackend, [&] { job.recorder->write_status("stopped", 75); });
    EXPECT_NE(text.find("could not be written"), std::string::npos) << text;
    EXPECT_NE(text.find("goes on from checkpoint 1"), std::string::npos) << text;
    EXPECT_EQ(job.status().at("state"), "failed");
    EXPECT_EQ(job.status().at("exit_code"), 74);
    EXPECT_EQ(job.status().at("failed_checkpoints"), 1);
    message_of(Fault::kBackend, [&] { job.recorder->write_status("trained", 0); });
    fs::remove(dir / "checkpoints");
    fs::rename(dir / "aside", dir / "checkpoints");
  }
  job.round();  // there is room again
  if (world().rank() == 0) {
    job.recorder->write_status("stopped", 75);
    EXPECT_EQ(job.status().at("state"), "stopped");
    EXPECT_EQ(job.status().at("round"), 3);
    EXPECT_EQ(lines_in(dir / "metrics.jsonl"), 3);
    EXPECT_EQ(job.directory->generation(), 2);
  }
}

TEST(Recorder, AFolderThatHasGoneEndsTheJob) {
  const fs::path dir = test::shared_scratch() / "run";
  Job job(dir);
  job.round();
  world().all().barrier();
  if (world().rank() == 0) {
    fs::rename(dir, dir.string() + "-moved");
    const std::string text = message_of(Fault::kBackend, [&] { job.round(); });
    EXPECT_NE(text.find("removed or renamed"), std::string::npos) << text;
    const DirectoryReport report = verify_directory(dir.string() + "-moved");
    EXPECT_EQ(report.resume, 0) << "what was committed is whole";
  }
}

TEST(Recorder, TwoStartsWithoutARoundAreTheEndOfRequeueing) {
  const fs::path dir = test::shared_scratch() / "run";
  const bool root = world().rank() == 0;
  const auto stop = [&](Job& job) {
    if (root) {
      job.recorder->write_status("stopped", 75);
    }
  };
  {
    Job job(dir);
    job.round();
    stop(job);
  }
  {
    Job job(dir);  // stopped before its first round: that may happen once
    stop(job);
    if (root) {
      EXPECT_EQ(job.status().at("starts_without_round"), 1);
    }
  }
  {
    Job job(dir);  // a round in between: the count begins anew
    job.round();
    stop(job);
    if (root) {
      EXPECT_EQ(job.status().at("starts_without_round"), 0);
    }
  }
  {
    Job job(dir);
    stop(job);
  }
  {
    Job job(dir);
    if (root) {
      const std::string text = message_of(Fault::kInternal, [&] { stop(job); });
      EXPECT_NE(text.find("without a new round"), std::string::npos) << text;
      EXPECT_EQ(job.status().at("state"), "failed");
      EXPECT_EQ(job.status().at("exit_code"), 70);
    }
  }
  Job job(dir);  // by hand, after that: a fresh count
  stop(job);
  if (root) {
    EXPECT_EQ(job.status().at("state"), "stopped");
  }
}

TEST(Recorder, WrongSettingsAreRefusedOnEveryRank) {
  store::CheckpointOptions options;
  options.max_walltime = "soon";
  const fs::path dir = test::shared_scratch() / "run";
  const std::string text = message_of(Fault::kConfig, [&] { Job job(dir, options); });
  EXPECT_NE(text.find("checkpoint.max_walltime"), std::string::npos) << text;
}

TEST(Recorder, StopsWhenTheTimeIsOver) {
  store::CheckpointOptions options;
  options.max_walltime = "00:00:01";  // less than the margin alone
  Job job(test::shared_scratch() / "run", options);
  EXPECT_EQ(job.recorder->request().stop, world().rank() == 0);
  EXPECT_EQ(stop_reason(), world().rank() == 0 ? "time limit 00:00:01" : "");
  job.round();
  if (world().rank() == 0) {
    job.recorder->write_status("stopped", 75);
    EXPECT_EQ(job.status().at("stopped_by"), "time limit 00:00:01");
    EXPECT_EQ(job.recorder->stop_text(), "stopped(time limit 00:00:01) rounds=1/4");
  }
}

}  // namespace
}  // namespace apo::cli
