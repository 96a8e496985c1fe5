// Signals and time limits: each case in a process of its own, since handlers belong to a process.

#include <csignal>
#include <cstdio>
#include <functional>
#include <string>

#include "stop_signals.hpp"
#include "time_limit.hpp"
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

/// @returns the status of waitpid(); `f` gives the exit code
int in_child(const std::function<int()>& f) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(f());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

void pause_beyond_one_signal() { usleep(600'000); }

TEST(StopSignals, EachNameIsCaughtAndNamed) {
  const std::pair<const char*, int> cases[] = {
      {"TERM", SIGTERM}, {"INT", SIGINT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}};
  for (const auto& [name, number] : cases) {
    const int status = in_child([name = std::string(name), number = number] {
      install_stop_signals({name});
      if (stop_requested() || !stop_reason().empty()) {
        return 1;
      }
      raise(number);
      return stop_requested() && stop_reason() == "signal " + name ? 0 : 2;
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << name << " " << status;
  }
}

TEST(StopSignals, OthersKeepTheirDefault) {
  const int status = in_child([] {
    install_stop_signals({"TERM", "USR1"});
    install_stop_signals({"TERM"});  // USR1 is given back
    raise(SIGUSR1);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1) << status;
}

TEST(StopSignals, InstallingAgainKeepsTheFlag) {
  const int status = in_child([] {
    install_stop_signals({"USR2"});
    raise(SIGUSR2);
    std::signal(SIGUSR2, SIG_IGN);  // as a library might
    install_stop_signals({"USR2"});
    return stop_requested() ? 0 : 1;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(StopSignals, TheFirstReasonStays) {
  const int status = in_child([] {
    install_stop_signals({"TERM", "USR2"});
    raise(SIGUSR2);
    pause_beyond_one_signal();
    raise(SIGTERM);
    return stop_reason() == "signal USR2" ? 0 : 1;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(StopSignals, ABurstCountsOnceAndTheThirdEndsTheProcess) {
  const int burst = in_child([] {
    install_stop_signals({"TERM"});
    for (int i = 0; i < 20; ++i) {
      raise(SIGTERM);
    }
    return stop_requested() ? 0 : 1;
  });
  EXPECT_TRUE(WIFEXITED(burst) && WEXITSTATUS(burst) == 0) << burst;

  testing::internal::CaptureStderr();
  const int two = in_child([] {
    install_stop_signals({"TERM"});
    raise(SIGTERM);
    pause_beyond_one_signal();
    raise(SIGTERM);
    return 0;
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(WIFEXITED(two) && WEXITSTATUS(two) == 0) << two;
  EXPECT_NE(said.find("under way"), std::string::npos) << said;

  testing::internal::CaptureStderr();
  const int three = in_child([] {
    install_stop_signals({"TERM", "USR1"});
    raise(SIGTERM);
    pause_beyond_one_signal();
    raise(SIGUSR1);
    pause_beyond_one_signal();
    raise(SIGTERM);
    return 0;
  });
  const std::string last = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(WIFSIGNALED(three) && WTERMSIG(three) == SIGTERM) << three;
  EXPECT_NE(last.find("ends at once"), std::string::npos) << last;
}

TEST(StopSignals, AnUnknownNameIsRefusedWithItsKey) {
  try {
    install_stop_signals({"TERM", "KILL"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kConfig);
    EXPECT_NE(std::string(error.what()).find("checkpoint.stop_signals"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("KILL"), std::string::npos);
  }
}

TEST(StopSignals, OtherReasons) {
  const int status = in_child([] {
    request_stop("time limit 00:10:00");
    request_stop("later");
    return stop_requested() && stop_reason() == "time limit 00:10:00" ? 0 : 1;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Walltime, AsSlurmWritesIt) {
  const std::pair<const char*, double> cases[] = {
      {"90", 5400},           {"1:30", 90},         {"01:30:00", 5400},
      {"00:00:20", 20},       {"2-0", 172800},      {"1-2:3", 93780},
      {"2-12:00:01", 216001}, {"48:00:00", 172800}, {"100:00", 6000}};
  for (const auto& [text, seconds] : cases) {
    EXPECT_EQ(parse_walltime("k", text), seconds) << text;
  }
}

TEST(Walltime, OtherFormsAreRefusedWithTheKey) {
  for (const char* text : {"", "0", "00:00:00", "-1", "1:2:3:4", "1h", "1:", ":1", "1-", "-", " 5",
                           "1-2-3", "5.5", "1:-2", "99999999999999999999", "UNLIMITED"}) {
    try {
      (void)parse_walltime("checkpoint.max_walltime", text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kConfig);
      EXPECT_NE(std::string(error.what()).find("checkpoint.max_walltime"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos);
    }
  }
}

TEST(TimeLimit, LeavesTimeForTheSlowestRoundItsCheckpointAndAMargin) {
  TimeLimit limit(1000.0);  // 2 % are 20 s
  EXPECT_FALSE(limit.must_stop(979.0));
  EXPECT_TRUE(limit.must_stop(981.0));
  limit.add_round(30.0);
  limit.add_round(100.0);
  limit.add_round(50.0);
  limit.add_checkpoint(7.0);
  limit.add_checkpoint(3.0);
  EXPECT_DOUBLE_EQ(limit.needed(), 127.0);
  EXPECT_FALSE(limit.must_stop(872.0));
  EXPECT_TRUE(limit.must_stop(874.0));
  EXPECT_DOUBLE_EQ(TimeLimit(60.0).needed(), 5.0);
  EXPECT_DOUBLE_EQ(TimeLimit(1e6).needed(), 120.0);
  EXPECT_FALSE(TimeLimit().must_stop(1e12));
}

TEST(TimeLimit, TheTimeOfTheProcessIsThatOfTheKernel) {
  // ps(1) is the outside reader of the kernel's number, in whole seconds.
  std::string text(32, '\0');
  FILE* ps = popen(("ps -o etimes= -p " + std::to_string(getpid())).c_str(), "r");
  ASSERT_NE(ps, nullptr);
  text.resize(fread(text.data(), 1, text.size(), ps));
  if (pclose(ps) != 0) {
    GTEST_SKIP() << "no ps here";
  }
  EXPECT_GE(seconds_of_process(), std::stod(text));
  const double first = seconds_of_process();
  usleep(20'000);
  EXPECT_GE(seconds_of_process(), first + 0.02);
}

}  // namespace
}  // namespace apo::cli
