#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "activity_state.hpp"
#include "watchdog_board.hpp"
#include "watchdog_thread.hpp"
#include <gtest/gtest.h>

#include "apo/comm/activity.hpp"

namespace apo::comm {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr WatchdogLimits kLimits{.timeout = 600.0, .grace = 5.0, .silence = 25.0};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A rank that reported `silent` seconds before time 0 of the tests.
RankReport report(int rank, double idle, const char* collective = "", const char* position = "",
                  double silent = 0.0) {
  RankReport result;
  result.rank = rank;
  result.idle_seconds = idle;
  result.waiting = *collective != '\0' ? 1 : 0;
  result.published_ns = -static_cast<std::int64_t>(silent * kSecond);
  result.set_texts(collective, position);
  return result;
}

std::string verdict(const std::vector<RankReport>& reports, int me, int num_ranks) {
  return judge(reports, me, 0, kLimits, num_ranks, "node7").value_or("");
}

// ---- activity

TEST(Activity, InnerScopesAddToOuterOnesAndGoBack) {
  EXPECT_EQ(activity_snapshot().position, "");
  {
    const Activity round("phase1", 57, 2);
    EXPECT_EQ(activity_snapshot().position, "phase1 round 57 cluster 2");
    {
      const Activity client("", -1, -1, 17, "alice");
      EXPECT_EQ(activity_snapshot().position, "phase1 round 57 cluster 2 client 17 'alice'");
      const Activity other("", -1, -1, 18);
      EXPECT_EQ(activity_snapshot().position, "phase1 round 57 cluster 2 client 18");
    }
    const Activity checkpoint("checkpoint");
    EXPECT_EQ(activity_snapshot().position, "checkpoint round 57 cluster 2");
  }
  EXPECT_EQ(activity_snapshot().position, "");
}

TEST(Activity, LongNamesAreCutAndStayText) {
  const Activity scope(std::string(1000, 'p'), 1, 2, 3, std::string(1000, 'n'));
  const std::string text = activity_snapshot().position;
  EXPECT_EQ(text,
            std::string(31, 'p') + " round 1 cluster 2 client 3 '" + std::string(63, 'n') + "'");
}

TEST(Activity, EveryChangeIsProgress) {
  std::uint64_t last = activity_snapshot().progress;
  const auto moved = [&] {
    const std::uint64_t now = activity_snapshot().progress;
    const bool result = now > last;
    last = now;
    return result;
  };
  EXPECT_FALSE(moved());
  {
    const Activity scope("a");
    EXPECT_TRUE(moved());
    note_progress();
    EXPECT_TRUE(moved());
    {
      const std::string team = "all ranks";
      const InCollective collective("barrier", 4, team);
      EXPECT_TRUE(moved());
      EXPECT_EQ(activity_snapshot().collective, "barrier 4 of all ranks");
      {
        const OutOfCollective own_work;
        EXPECT_TRUE(moved());
        EXPECT_EQ(activity_snapshot().collective, "");
      }
      EXPECT_TRUE(moved());
      EXPECT_EQ(activity_snapshot().collective, "barrier 4 of all ranks");
    }
    EXPECT_TRUE(moved());
  }
  EXPECT_TRUE(moved());
  EXPECT_FALSE(moved());
}

TEST(AtActivity, NamesTheInnermostScopeThatAnExceptionLeft) {
  try {
    const Activity round("phase1", 12, 3);
    const Activity client("", -1, -1, 17, "alice");
    throw std::runtime_error("no gradient");
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(at_activity(error.what()),
              "phase1 round 12 cluster 3 client 17 'alice': no gradient");
    EXPECT_EQ(at_activity("again"), "again") << "said once";
  }
}

TEST(AtActivity, NamesThePresentOneWhenNoneWasLeft) {
  const Activity round("reading data");
  EXPECT_EQ(at_activity("no file"), "reading data: no file");
}

TEST(AtActivity, AFailureThatWasDealtWithIsForgotten) {
  const Activity outer("phase1");
  try {
    const Activity inner("checkpoint");
    throw std::runtime_error("disk full");
  } catch (const std::runtime_error&) {
  }
  { const Activity later("round", 5); }
  EXPECT_EQ(at_activity("trouble"), "phase1: trouble");
}

TEST(AtActivity, NamesTheCollectiveThatFailed) {
  const std::string team = "team 2 (ranks 3-5)";
  try {
    const Activity round("phase1", 12, 3);
    const InCollective collective("all_reduce", 4182, team);
    throw std::runtime_error("MPI_Allreduce failed");
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(at_activity(error.what()),
              "all_reduce 4182 of team 2 (ranks 3-5), phase1 round 12 cluster 3: "
              "MPI_Allreduce failed");
  }
}

TEST(AtActivity, AddsNothingWhereNothingIsKnown) { EXPECT_EQ(at_activity("text"), "text"); }

TEST(AtActivity, TheTextOfSignalHandlersIsTheSame) {
  const std::string team = "all ranks";
  const Activity round("phase1", 12, 3);
  const InCollective collective("all_reduce", 4182, team);
  std::vector<char> buffer(300);
  const std::size_t used = activity_text_in_signal(buffer.data(), buffer.size());
  EXPECT_EQ(std::string(buffer.data(), used), "all_reduce 4182, phase1 round 12 cluster 3");
  EXPECT_EQ(activity_text_in_signal(buffer.data(), 5), 5U);
}

// ---- what is concluded

TEST(Judge, ProgressWithinTheTimeoutIsFine) {
  EXPECT_EQ(verdict({report(0, 599.0)}, 0, 1), "");
  EXPECT_NE(verdict({report(0, 600.0)}, 0, 1), "");
}

TEST(Judge, ARankOutsideOfCollectivesIsToBlame) {
  const std::vector<RankReport> reports = {
      report(4, 590.0, "all_gather 9 of all ranks", "phase1 round 57"),
      report(5, 601.0, "", "phase1 round 57 cluster 2 client 17")};
  EXPECT_EQ(
      verdict(reports, 5, 8),
      "rank 5 of 8 (node7) made no progress for 601 s in phase1 round 57 cluster 2 client 17; "
      "rank 4 waits in all_gather 9 of all ranks, phase1 round 57");
  EXPECT_EQ(verdict(reports, 4, 8), "") << "who waits blames nobody before its own time";
}

TEST(Judge, WhoWaitsForARankAtWorkIsPatient) {
  std::vector<RankReport> reports = {report(0, 5000.0, "barrier 1 of all ranks"), report(1, 10.0)};
  EXPECT_EQ(verdict(reports, 0, 2), "");
  reports[1] = report(1, 10.0, "barrier 1 of team 0");  // inside a collective of another team
  EXPECT_EQ(verdict(reports, 0, 2), "");
  reports[1].left = 1;  // its work is over: it will make no more progress
  EXPECT_NE(verdict(reports, 0, 2), "");
}

TEST(Judge, WhoWaitsSpeaksAfterTheGrace) {
  const auto waiting = [](double idle) {
    return std::vector<RankReport>{report(0, idle, "barrier 1 of all ranks"),
                                   report(1, idle, "barrier 1 of team 0")};
  };
  EXPECT_EQ(verdict(waiting(604.0), 0, 2), "");
  const std::string text = verdict(waiting(606.0), 0, 2);
  EXPECT_TRUE(contains(text, "all ranks wait, in collectives that do not match")) << text;
  EXPECT_TRUE(contains(text, "rank 1 waits in barrier 1 of team 0")) << text;
  EXPECT_TRUE(contains(verdict(waiting(606.0), 0, 3), "ranks of other hosts"));
}

TEST(Judge, AStoppedProcessIsToBlameWhereverItWas) {
  const std::vector<RankReport> reports = {
      report(0, 606.0, "barrier 1 of all ranks"),
      report(1, 1.0, "barrier 1 of all ranks", "phase2 round 3", 620.0)};
  EXPECT_EQ(verdict(reports, 0, 2),
            "rank 1 of 2 (node7) gives no sign of life for 620 s: its process is stopped or gone, "
            "last seen in barrier 1 of all ranks, phase2 round 3; rank 0 waits in barrier 1 of all "
            "ranks");
}

TEST(Judge, ManyWaitingRanksAreCounted) {
  std::vector<RankReport> reports = {report(0, 700.0)};
  for (int rank = 1; rank < 64; ++rank) {
    reports.push_back(report(rank, 700.0, "barrier 1 of all ranks"));
  }
  const std::string text = verdict(reports, 0, 64);
  EXPECT_TRUE(contains(text, "rank 8 waits")) << text;
  EXPECT_FALSE(contains(text, "rank 9 waits")) << text;
  EXPECT_TRUE(contains(text, "and 55 more ranks")) << text;
}

// ---- the board

TEST(Board, GivesBackWhatWasPublished) {
  std::vector<std::uint64_t> memory(WatchdogBoard::size_in_bytes(3) / 8);
  WatchdogBoard board(memory.data(), 3);
  WatchdogBoard same(memory.data(), 3);
  EXPECT_FALSE(same.read(1).has_value());
  board.publish(1, report(7, 2.5, "barrier 1 of all ranks", "phase1", 3.0));
  const auto seen = same.read(1);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->rank, 7);
  EXPECT_EQ(seen->idle_seconds, 2.5);
  EXPECT_EQ(seen->published_ns, -3 * kSecond);
  EXPECT_STREQ(seen->collective.data(), "barrier 1 of all ranks");
  EXPECT_STREQ(seen->position.data(), "phase1");
  EXPECT_FALSE(same.read(0).has_value());
  EXPECT_TRUE(board.claim_the_word());
  EXPECT_FALSE(same.claim_the_word());
}

TEST(Board, ReadersSeeWholeReportsOnly) {
  std::vector<std::uint64_t> memory(WatchdogBoard::size_in_bytes(1) / 8);
  WatchdogBoard board(memory.data(), 1);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 1; i <= 20000; ++i) {
      RankReport next = report(i, i);
      next.position.fill(static_cast<char>('a' + i % 26));
      WatchdogBoard(memory.data(), 1).publish(0, next);
    }
    done = true;
  });
  int num_read = 0;
  int num_torn = 0;
  while (!done || num_read == 0) {
    if (const auto seen = board.read(0)) {
      ++num_read;
      const char letter = static_cast<char>('a' + seen->rank % 26);
      num_torn += seen->idle_seconds != seen->rank || seen->position.front() != letter ||
                  seen->position.back() != letter;
    }
  }
  writer.join();
  EXPECT_EQ(num_torn, 0) << "of " << num_read;
}

// ---- the thread

class Thread : public testing::Test {
 protected:
  WatchdogThread::Settings settings(double timeout) {
    WatchdogThread::Settings result;
    result.limits = {.timeout = timeout, .grace = 0.01, .silence = 60.0};
    result.tick = 0.001;
    result.host = "node7";
    result.alarm = [this](const std::string& message) { alarm_.set_value(message); };
    return result;
  }
  WatchdogBoard board() { return {memory_.data(), 1}; }

  std::vector<std::uint64_t> memory_ =
      std::vector<std::uint64_t>(WatchdogBoard::size_in_bytes(1) / 8);
  std::promise<std::string> alarm_;
};

TEST_F(Thread, SaysOnceWhereTheRankIsStuck) {
  const Activity round("phase1", 57, 2);
  const WatchdogThread thread(settings(0.05), board());
  const std::string text = alarm_.get_future().get();  // a second alarm would throw, and terminate
  EXPECT_TRUE(contains(text, "rank 0 of 1 (node7) made no progress for")) << text;
  EXPECT_TRUE(contains(text, "in phase1 round 57 cluster 2")) << text;
}

TEST_F(Thread, IsSilentWhenAnotherRankHasTheWord) {
  EXPECT_TRUE(board().claim_the_word());
  const WatchdogThread thread(settings(0.05), board());
  EXPECT_EQ(alarm_.get_future().get(), "");
}

TEST_F(Thread, LooksOnWhileTheRankWorks) {
  const std::string team = "all ranks";
  {
    const WatchdogThread thread(settings(3600.0), board());
    for (int i = 0; i < 20000; ++i) {
      const Activity round("phase1", i, 2, i, "alice");
      const InCollective collective("barrier", i, team);
      const OutOfCollective own_work;
      note_progress();
    }
  }
  EXPECT_EQ(alarm_.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  const auto last = board().read(0);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->left, 1) << "others no longer count on it";
}

}  // namespace
}  // namespace apo::comm
