// How the NCCL back end fails while a team is made or closed; see nccl_failure_test.cpp.

#include <string>
#include <vector>

#include "nccl_fixture.hpp"

#include "apo/comm/device_map.hpp"

namespace apo::comm {
namespace {

/// Two teams are made; that of the troubled rank fails, and all ranks of the world learn of it.
class NcclInit : public NcclFailure {
 protected:
  template <class Injection>
  static void expect_failed_split(int troubled, const Injection& inject, long code,
                                  const std::string& part) {
    if (is_me(troubled)) {
      inject();
    }
    const Caught caught = thrown_by(
        [&] { (void)ClusterCommunicator::split(world(), world().rank() % 2, Backend::kNccl); });
    EXPECT_EQ(caught.fault, Fault::kBackend);
    EXPECT_EQ(caught.code, code);
    EXPECT_TRUE(caught.says(part)) << part << " is missing in: " << caught.text;
    EXPECT_TRUE(caught.says("team of " + half_text(troubled % 2))) << caught.text;
    expect_agreed(caught);
    EXPECT_EQ(num_calls("ncclCommFinalize"), 0);
  }
};

TEST_F(NcclInit, ErrorInTheBackgroundReachesTheWorld) {
  for_each_rank([&](int troubled) {
    expect_failed_split(
        troubled, [] { switches().init_error = ncclSystemError; }, ncclSystemError,
        "ncclCommInitRankConfig failed with code 2: unhandled system error (NET/Socket : no "
        "interface found; NCCL 21805 at run time, 21805 at build time) [" +
            rank_text(troubled) + " in ncclCommInitRankConfig, operation 2");
  });
}

TEST_F(NcclInit, RefusalReachesTheWorld) {
  for_each_rank([&](int troubled) {
    expect_failed_split(
        troubled, [] { switches().init_refused = ncclInvalidUsage; }, ncclInvalidUsage,
        "ncclCommInitRankConfig failed with code 5: invalid usage");
  });
}

TEST_F(NcclInit, NoUniqueIdReachesTheWorld) {
  expect_failed_split(
      0, [] { switches().unique_id_error = ncclInternalError; }, ncclInternalError,
      "ncclGetUniqueId failed with code 3: internal error");
  EXPECT_EQ(num_calls("ncclCommInitRankConfig"), world().rank() % 2) << "only the other team's";
}

TEST_F(NcclInit, CommunicatorThatIsNeverReadyTimesOut) {
  set_nccl_limits({.timeout = 0.4, .grace = 10.0});
  for_each_rank([&](int troubled) {
    expect_failed_split(
        troubled, [] { switches().init_stuck = true; }, ncclInProgress,
        "ncclCommInitRankConfig failed with code 7: not finished within 0.4 s");
  });
}

class NcclDevices : public NcclFailure {
 protected:
  static Caught failed_split() {
    const Caught caught =
        thrown_by([] { (void)ClusterCommunicator::split(world(), 0, Backend::kNccl); });
    expect_agreed(caught);
    EXPECT_TRUE(nccl_double::calls().empty()) << "refused before any communicator is begun";
    return caught;
  }
};

TEST_F(NcclDevices, RanksThatShareOneAreNamed) {
  if (world().size() == 1) {
    GTEST_SKIP() << "nobody to share with";
  }
  for (const bool same_uuid : {true, false}) {  // or there is only one, given to all
    nccl_double::reset();
    switches().same_uuid = same_uuid;
    switches().num_devices = same_uuid ? 8 : 1;
    const Caught caught = failed_split();
    EXPECT_EQ(caught.fault, Fault::kDevice);
    EXPECT_TRUE(caught.says("ranks 0 and 1 share one GPU (" + world().host() + " GPU-d0"))
        << caught.text;
    EXPECT_TRUE(caught.says("runtime.collectives = mpi")) << caught.text;
  }
}

TEST_F(NcclDevices, NoneOnOneRankIsSaidToAll) {
  EXPECT_TRUE(backend_is_usable(Backend::kNccl));
  for_each_rank([&](int troubled) {
    switches().num_devices = is_me(troubled) ? 0 : 8;
    EXPECT_EQ(backend_is_usable(Backend::kNccl), !is_me(troubled));
    const Caught caught = failed_split();
    EXPECT_EQ(caught.fault, Fault::kDevice);
    EXPECT_TRUE(caught.says("no usable CUDA device on host " + world().host())) << caught.text;
    EXPECT_EQ(caught.says("rank " + std::to_string(troubled) + " of"), world().size() > 1)
        << caught.text;
  });
}

TEST_F(NcclDevices, VersionsHaveToAgree) {
  if (world().size() > 1) {
    switches().version = is_me(world().size() - 1) ? 22703 : 23004;
    const Caught caught = failed_split();
    EXPECT_EQ(caught.fault, Fault::kBackend);
    EXPECT_TRUE(caught.says("rank 0 runs with NCCL 23004 and rank " +
                            std::to_string(world().size() - 1) + " with NCCL 22703"))
        << caught.text;
  }
  nccl_double::reset();
  switches().version = 21403;
  const Caught caught = failed_split();
  EXPECT_TRUE(caught.says("runs with NCCL 21403 but was built for NCCL 21805")) << caught.text;
  nccl_double::reset();
  switches().version = 23004;  // newer than the header: its interface grows only
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  reduce_one(team);
  team.close();
}

class NcclClose : public NcclFailure {};

TEST_F(NcclClose, ErrorOfFinalizeReachesAll) {
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    reduce_one(team);
    switches().finalize_error = is_me(troubled) ? ncclSystemError : ncclSuccess;
    const Caught caught = thrown_by([&] { team.close(); });
    EXPECT_EQ(caught.code, ncclSystemError);
    EXPECT_TRUE(caught.says("ncclCommFinalize failed with code 2")) << caught.text;
    EXPECT_TRUE(caught.says(rank_text(troubled) + " in ncclCommFinalize, operation 4"))
        << caught.text;
    expect_agreed(caught);
    EXPECT_EQ(num_calls("ncclCommAbort"), 1);
    team.close();  // the host half
    EXPECT_EQ(num_calls("ncclCommFinalize"), 1);
  });
}

TEST_F(NcclClose, FinalizeThatNeverEndsTimesOut) {
  set_nccl_limits({.timeout = 0.4, .grace = 10.0});
  for_each_rank([&](int troubled) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().finalize_stuck = is_me(troubled);
    const Caught caught = thrown_by([&] { team.close(); });
    EXPECT_TRUE(caught.says("ncclCommFinalize failed with code 7: not finished within 0.4 s"))
        << caught.text;
    expect_agreed(caught);
    EXPECT_EQ(num_calls("ncclCommAbort"), 1);
  });
}

TEST_F(NcclClose, DestructionAfterAFailureAbortsOnce) {
  {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    switches().async_error_at = 1;
    EXPECT_THROW(reduce_one(team), BackendError);
  }
  EXPECT_EQ(num_calls("ncclCommAbort"), 1);
}

class RankDevices : public NcclTest {};

TEST_F(RankDevices, GoRoundTheGpusOfAHost) {
  EXPECT_EQ(choose_rank_device(world(), "cpu").name, "cpu");
  for (const char* wanted : {"auto", "cuda"}) {
    switches().num_devices = 2;
    const RankDevice device = choose_rank_device(world(), wanted);
    EXPECT_EQ(device.name, "cuda:" + std::to_string(world().local_rank() % 2));
    EXPECT_TRUE(device.model.starts_with("Double 100 GPU-d0")) << device.model;
    EXPECT_EQ(device.memory, 64.0 * 1024 * 1024 * 1024);
  }
}

TEST_F(RankDevices, OneWithoutAGpuDecidesForAll) {
  const bool is_last = world().rank() + 1 == world().size();
  switches().num_devices = is_last ? 0 : 8;
  EXPECT_EQ(choose_rank_device(world(), "auto").name, "cpu");
  const auto caught = thrown_by([] { (void)choose_rank_device(world(), "cuda"); });
  EXPECT_EQ(caught.fault, Fault::kDevice);
  EXPECT_TRUE(caught.says("runtime.device = cuda: no usable GPU on host " + world().host()))
      << caught.text;
}

}  // namespace
}  // namespace apo::comm
