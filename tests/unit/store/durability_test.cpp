// What survives kill -9 and a full disk.

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "support/scratch.hpp"
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apo/core/error.hpp"
#include "apo/store/run_directory.hpp"

namespace apo::store {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

Document state_of(std::int64_t round, std::size_t num_values = 50'000) {
  Document document;
  document.attributes[""]["round"] = round;
  std::vector<double> values(num_values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(round) + static_cast<double>(i) * 1e-6;
  }
  const auto extent = static_cast<std::int64_t>(num_values);
  document.arrays["state/adapter"] = {std::move(values), {extent}, "", "", {"parameter"}};
  return document;
}

bool is_state_of(const Document& document, std::int64_t round) {
  const Document expected = state_of(round);
  return document.attributes == expected.attributes &&
         std::get<std::vector<double>>(document.array("state/adapter").values) ==
             std::get<std::vector<double>>(expected.array("state/adapter").values);
}

/// Publishes for ever; says each round on the pipe once it is safe.
[[noreturn]] void publish_until_killed(const fs::path& dir, std::int64_t first, int acknowledge) {
  RunDirectory run = RunDirectory::open(dir, "seed = 1\n", {});
  for (std::int64_t round = first;; ++round) {
    run.publish_checkpoint(state_of(round));
    if (write(acknowledge, &round, sizeof round) != sizeof round) {
      _exit(9);
    }
  }
}

TEST(Durability, KillNineNeverLosesAnAcknowledgedCheckpoint) {
  constexpr int kKills = 25;
  Scratch scratch;
  std::int64_t last = 0;
  int with_leftovers = 0;
  for (int i = 0; i < kKills; ++i) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      publish_until_killed(scratch / "run", last + 1, ends[1]);
    }
    close(ends[1]);
    // At least one publication, then some moment inside the next ones.
    std::int64_t acknowledged = 0;
    ASSERT_EQ(read(ends[0], &acknowledged, sizeof acknowledged),
              static_cast<ssize_t>(sizeof acknowledged));
    usleep(static_cast<useconds_t>(1000 + i * 1731 % 20'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    std::int64_t next = 0;
    while (read(ends[0], &next, sizeof next) == static_cast<ssize_t>(sizeof next)) {
      acknowledged = next;
    }
    close(ends[0]);
    for (const auto& entry : fs::directory_iterator(scratch / "run/checkpoints")) {
      with_leftovers += entry.path().filename().string().starts_with(".tmp-") ? 1 : 0;
    }
    RunDirectory run = RunDirectory::open(scratch / "run", "seed = 1\n", {});
    const auto loaded = run.load_checkpoint();
    ASSERT_TRUE(loaded.has_value()) << "kill " << i;
    const auto round = std::get<std::int64_t>(loaded->attribute("", "round"));
    EXPECT_GE(round, acknowledged) << "kill " << i;
    EXPECT_TRUE(is_state_of(*loaded, round)) << "kill " << i;
    last = round;
  }
  RecordProperty("generations", static_cast<int>(last));
  RecordProperty("kills_inside_a_publication", with_leftovers);
  EXPECT_GT(with_leftovers, 0) << "no kill has hit a publication: the test proves nothing";
}

/// A file system of 2 MiB, unmounted at the end of its scope.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path where) : where_(std::move(where)) {
    fs::create_directory(where_);
    mounted_ = mount("tmpfs", where_.c_str(), "tmpfs", 0, "size=2m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) {
      umount2(where_.c_str(), MNT_DETACH);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  fs::path where_;
  bool mounted_ = false;
};

/// What the child does on the full disk; returns the number of a failed check, 0: all well.
int use_full_disk(const fs::path& dir) {
  RunDirectory run = RunDirectory::open(dir, "seed = 1\n", {});
  run.publish_checkpoint(state_of(1));  // 0.4 MB
  for (const std::size_t num_values : {std::size_t{2'000'000}, std::size_t{250'000}}) {
    try {
      run.publish_checkpoint(state_of(2, num_values));
      return 1;
    } catch (const BackendError& error) {
      if (std::string(error.what()).find("checkpoint-000002.h5") == std::string::npos) {
        return 2;
      }
    }
  }
  if (run.generation() != 1) {
    return 3;
  }
  for (const auto& entry : fs::directory_iterator(dir / "checkpoints")) {
    if (entry.path().filename() != "checkpoint-000001.h5") {
      return 4;  // the unfinished file takes the room of the next attempt
    }
  }
  const auto loaded = run.load_checkpoint();
  if (!loaded || !is_state_of(*loaded, 1)) {
    return 5;
  }
  // Metrics: the last whole line stays the last line.
  const std::string line(4000, 'm');
  try {
    for (int i = 0; i < 1000; ++i) {
      run.append_metrics(line);
    }
    return 6;
  } catch (const BackendError&) {
  }
  if (run.metrics_size() % 4001 != 0 || run.metrics_size() == 0) {
    return 7;
  }
  run.truncate_metrics(0);
  run.publish_checkpoint(state_of(3));  // room again: goes on
  const auto again = run.load_checkpoint();
  return again && is_state_of(*again, 3) ? 0 : 8;
}

TEST(Durability, AFullDiskLeavesTheOldFile) {
  Scratch scratch;
  const SmallDisk disk(scratch / "disk");
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting a small tmpfs needs root";
  }
  // In a child that ends by exit(): HDF5's clean-up after a full disk must not crash it.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int code = 9;
    try {
      code = use_full_disk(scratch / "disk/run");
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "number of the check in use_full_disk";
}

TEST(Durability, AReadOnlyFolderIsSaidPlainly) {
  Scratch scratch;
  std::ofstream(scratch / "file") << "x";
  try {
    (void)RunDirectory::open(scratch / "file/run", "seed = 1\n", {});
    ADD_FAILURE() << "a folder below a file";
  } catch (const BackendError& error) {
    EXPECT_NE(std::string(error.what()).find("file/run"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace apo::store
