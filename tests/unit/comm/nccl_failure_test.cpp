// How the NCCL back end fails in a collective: each kind of failure is injected into the test
// double on each rank in turn, and has to end in one error, the same on all ranks.

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "nccl_fixture.hpp"

namespace apo::comm {
namespace {

TEST_F(NcclFailure, AsynchronousErrorOfOneRankReachesAll) {
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().async_error_at = is_me(troubled) ? 3 : nccl_double::kNever;
    reduce_one(team);
    reduce_one(team);
    const Caught caught = thrown_by([&] { reduce_one(team); });
    EXPECT_EQ(caught.fault, Fault::kBackend);
    EXPECT_EQ(caught.code, ncclRemoteError);
    for (const std::string& part :
         {std::string("ncclAllReduce failed with code 6"),
          std::string("remote process exited or there was a network error"),
          std::string("got completion from peer with status=12"),  // ncclGetLastError
          "[" + rank_text(troubled) + " in ncclAllReduce", std::string("operation 5 of the team"),
          "the team of " + all_ranks_text() + "]"}) {
      EXPECT_TRUE(caught.says(part)) << part << " is missing in: " << caught.text;
    }
    expect_agreed(caught);
    expect_given_up(team);
  });
}

TEST_F(NcclFailure, TheLowestRankWithAnErrorSpeaks) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  const int p = world().size();
  // All ranks but rank 0 have an error; rank 0 only learns of it, unless it is alone.
  switches().async_error_at = p == 1 || world().rank() > 0 ? 1 : nccl_double::kNever;
  switches().async_error = world().rank() % 2 == 0 ? ncclInternalError : ncclSystemError;
  const Caught caught = thrown_by([&] { reduce_one(team); });
  EXPECT_EQ(caught.code, p == 1 ? ncclInternalError : ncclSystemError);
  EXPECT_TRUE(caught.says(rank_text(std::min(1, p - 1)) + " in ncclAllReduce")) << caught.text;
  expect_agreed(caught);
  expect_given_up(team);
}

TEST_F(NcclFailure, OtherTeamsGoOn) {
  const int color = world().rank() % 2;
  auto team = ClusterCommunicator::split(world(), color, Backend::kNccl);
  switches().async_error_at = is_me(0) ? 2 : nccl_double::kNever;
  reduce_one(team);
  if (color == 0) {
    const Caught caught = thrown_by([&] { reduce_one(team); });
    EXPECT_TRUE(caught.says("team of " + half_text(0) + "]")) << caught.text;
    expect_given_up(team);
  } else {
    reduce_one(team);
    reduce_one(team);
    team.close();
    EXPECT_EQ(num_calls("ncclCommAbort"), 0);
  }
}

TEST_F(NcclFailure, CollectiveThatStartsNowhereTimesOut) {
  set_nccl_limits({.timeout = 0.4, .grace = 10.0});
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().stuck_before = is_me(troubled) ? 1 : nccl_double::kNever;
    const Caught caught = thrown_by([&] { reduce_one(team); });
    EXPECT_EQ(caught.fault, Fault::kBackend);
    EXPECT_EQ(caught.code, ncclInProgress);
    EXPECT_TRUE(caught.says("ncclAllReduce failed with code 7: not finished within 0.4 s"))
        << caught.text;
    EXPECT_TRUE(caught.says("operation 3 of the team")) << caught.text;
    expect_agreed(caught);
    expect_given_up(team);
  });
}

TEST_F(NcclFailure, StreamThatNeverEndsIsTraced) {
  set_nccl_limits({.timeout = 0.4, .grace = 10.0});
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().stuck_after = is_me(troubled) ? 2 : nccl_double::kNever;
    reduce_one(team);
    const Caught caught = thrown_by([&] { reduce_one(team); });
    // The others have their numbers; only the troubled rank is named.
    EXPECT_TRUE(caught.says("not finished within 0.4 s on " + rank_text(troubled) + " ["))
        << caught.text;
    expect_agreed(caught);
    expect_given_up(team);
  });
}

TEST_F(NcclFailure, BroadcastIsWatchedLikewise) {
  set_nccl_limits({.timeout = 0.4, .grace = 10.0});
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().stuck_after = is_me(troubled) ? 1 : nccl_double::kNever;
    std::vector<float> values(3);
    const Caught caught =
        thrown_by([&] { team.broadcast(std::span<float>(values), world().size() - 1); });
    EXPECT_TRUE(caught.says("ncclBroadcast failed with code 7")) << caught.text;
    EXPECT_TRUE(caught.says("on " + rank_text(troubled) + " [")) << caught.text;
    expect_agreed(caught);
    expect_given_up(team);
  });
}

TEST_F(NcclFailure, RankThatComesTooLateFindsTheCollectiveGivenUp) {
  set_nccl_limits({.timeout = 0.4, .grace = 10.0});
  if (world().size() == 1) {
    GTEST_SKIP() << "nobody to wait for";
  }
  for_each_rank([&](int late) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    if (is_me(late)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(900));
    }
    const Caught caught = thrown_by([&] { reduce_one(team); });
    EXPECT_EQ(caught.code, ncclInProgress);
    expect_agreed(caught);
    expect_given_up(team);
  });
}

TEST_F(NcclFailure, MemoryMayRunOutOnOneRank) {
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().fail_malloc_from = is_me(troubled) ? 1 : nccl_double::kNever;
    const Caught caught = thrown_by([&] { reduce_one(team); });
    EXPECT_EQ(caught.code, cudaErrorMemoryAllocation);
    EXPECT_TRUE(caught.says("cudaMalloc failed with code 2: out of memory [" + rank_text(troubled) +
                            " in ncclAllReduce"))
        << caught.text;
    expect_agreed(caught);
    expect_given_up(team);
  });
}

TEST_F(NcclFailure, ErrorOfTheStreamReachesAll) {
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().stream_error_at = is_me(troubled) ? 2 : nccl_double::kNever;
    reduce_one(team);
    const Caught caught = thrown_by([&] { reduce_one(team); });
    EXPECT_EQ(caught.code, cudaErrorIllegalAddress);
    EXPECT_TRUE(caught.says("cudaStreamQuery failed with code 700: an illegal memory access"))
        << caught.text;
    expect_agreed(caught);
    expect_given_up(team);
  });
}

TEST_F(NcclFailure, LaunchInProgressCanBeAborted) {
  set_nccl_limits({.timeout = 0.4, .grace = 10.0});
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().launch_polls = is_me(troubled) ? 1'000'000'000 : 0;
    const Caught caught = thrown_by([&] { reduce_one(team); });
    EXPECT_EQ(caught.code, ncclInProgress);
    expect_agreed(caught);
    expect_given_up(team);
  });
}

}  // namespace
}  // namespace apo::comm
