#include <new>

#include "mpi_support.hpp"
#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

#include "apo/comm/activity.hpp"
#include "apo/comm/device_map.hpp"
#include "apo/comm/exact_sum.hpp"
#include "apo/comm/watchdog.hpp"

namespace apo::comm {
namespace {

using test::world;

/// Runs f and returns its Error's fault and text; fails the test when there was none.
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

/// Number of the handle that the next communicator gets; Open MPI takes the lowest free one.
MPI_Fint next_handle() {
  MPI_Comm raw = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &raw), "MPI_Comm_dup");
  const UniqueComm owner(raw);
  return MPI_Comm_c2f(raw);
}

TEST(AgreeOrThrow, IsSilentWhenAllAreWell) {
  world().all().agree_or_throw("", static_cast<int>(Fault::kInternal));
  world().all().run_and_agree([] {});
}

TEST(AgreeOrThrow, OneFailingRankFailsAllWithItsTextAndFault) {
  for (int failing = 0; failing < world().size(); ++failing) {
    const auto [fault, text] = thrown_by([&] {
      world().all().agree_or_throw(
          world().rank() == failing ? "pairs.jsonl line 3: no prompt" : "",
          static_cast<int>(world().rank() == failing ? Fault::kData : Fault::kConfig));
    });
    EXPECT_EQ(fault, Fault::kData);
    EXPECT_TRUE(contains(text, "pairs.jsonl line 3: no prompt")) << text;
    EXPECT_EQ(contains(text, "rank " + std::to_string(failing) + " of"), world().size() > 1)
        << text;
  }
}

TEST(AgreeOrThrow, TheLowestFailingRankSpeaks) {
  const auto text = thrown_by([&] {
                      world().all().agree_or_throw("text of " + std::to_string(world().rank()),
                                                   static_cast<int>(Fault::kConfig));
                    }).second;
  EXPECT_TRUE(contains(text, "text of 0")) << text;
}

TEST(RunAndAgree, KeepsTheFaultOfOurErrors) {
  const int last = world().size() - 1;
  const auto [fault, text] = thrown_by([&] {
    world().all().run_and_agree([&] {
      if (world().rank() == last) {
        throw BackendError("H5Dwrite", -1, "no space left");
      }
    });
  });
  EXPECT_EQ(fault, Fault::kBackend);
  EXPECT_TRUE(contains(text, "H5Dwrite failed with code -1: no space left")) << text;
}

TEST(RunAndAgree, OtherExceptionsAreInternal) {
  const auto check = [](auto thrower, const std::string& expected) {
    const auto [fault, text] = thrown_by([&] {
      world().all().run_and_agree([&] {
        if (world().rank() == 0) {
          thrower();
        }
      });
    });
    EXPECT_EQ(fault, Fault::kInternal);
    EXPECT_TRUE(contains(text, expected)) << text;
  };
  check([] { throw std::bad_alloc(); }, "bad_alloc");
  check([] { throw std::runtime_error(""); }, "without a message");
  check([] { throw 42; }, "unknown type");
}

TEST(RunAndAgree, SaysOnAllRanksWhereTheFailingRankWas) {
  const int last = world().size() - 1;
  std::string seen;
  try {
    const Activity round("phase1", 12, 3);
    world().all().run_and_agree([&] {
      const Activity client("", -1, -1, 17, "alice");
      if (world().rank() == last) {
        throw Error(Fault::kData, "no pairs");
      }
    });
  } catch (const Error& error) {
    seen = at_activity(error.what());  // as the program does
  }
  EXPECT_TRUE(contains(seen, "phase1 round 12 cluster 3 client 17 'alice': no pairs")) << seen;
  EXPECT_EQ(seen.find("phase1"), seen.rfind("phase1")) << "said twice: " << seen;
  EXPECT_EQ(contains(seen, "rank " + std::to_string(last) + " of"), world().size() > 1) << seen;
}

TEST(RankDevices, WithoutGpusThereIsTheCpu) {
  if (backend_is_usable(Backend::kNccl)) {
    GTEST_SKIP() << "this machine has a GPU";
  }
  for (const char* wanted : {"auto", "cpu"}) {
    EXPECT_EQ(choose_rank_device(world(), wanted).name, "cpu");
  }
  const auto [fault, text] = thrown_by([] { (void)choose_rank_device(world(), "cuda"); });
  EXPECT_EQ(fault, Fault::kDevice);
  EXPECT_TRUE(contains(text, "runtime.device = cuda: no usable GPU on host " + world().host()))
      << text;
}

TEST(ExactSum, TheCallersFailureNamesThePlace) {
  const int last = world().size() - 1;
  std::vector<double> sum(3);
  const auto text = thrown_by([&] {
                      const Activity round("phase1", 12, 3);
                      const auto add = [&](std::size_t, std::size_t, std::span<double>) {
                        if (world().rank() == last) {
                          throw Error(Fault::kData, "no update");
                        }
                      };
                      exact_sum(world().all(), sum, 1, static_cast<std::size_t>(last) + 1, add);
                    }).second;
  EXPECT_TRUE(contains(text, "phase1 round 12 cluster 3: no update")) << text;
}

TEST(WatchdogOfWorld, WatchesAndLeavesNothingBehind) {
  const MPI_Fint before = next_handle();
  for (int i = 0; i < 5; ++i) {
    const Watchdog watchdog(world(), 3600.0);
    const Watchdog none(world(), 0.0);
    world().all().barrier();
  }
  EXPECT_EQ(next_handle(), before);
}

TEST(Nccl, AbsentOrWithoutADeviceSaysWhatToDo) {
  if (backend_is_usable(Backend::kNccl)) {
    GTEST_SKIP() << "NCCL and a device are there";
  }
  const auto [fault, text] =
      thrown_by([] { (void)ClusterCommunicator::split(world(), 0, Backend::kNccl); });
  EXPECT_EQ(fault, Fault::kDevice);
  EXPECT_TRUE(contains(text, "runtime.collectives = mpi")) << text;
  EXPECT_TRUE(contains(text, "-DAPO_WITH_CUDA=ON") || contains(text, "no usable CUDA device"))
      << text;
  EXPECT_TRUE(backend_is_usable(Backend::kMpi));
  world().all().barrier();  // all ranks threw, nobody is left behind
}

TEST(MpiCheck, ErrorsComeBackWithTheLibrarysText) {
  int value = 0;
  try {
    mpi_check(MPI_Send(&value, 1, MPI_INT, world().size() + 5, 0, MPI_COMM_WORLD), "MPI_Send");
    ADD_FAILURE() << "sending to a rank that does not exist passed";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.fault(), Fault::kBackend);
    EXPECT_TRUE(contains(error.what(), "MPI_Send")) << error.what();
    EXPECT_TRUE(contains(error.what(), "MPI_ERR_RANK")) << error.what();
  }
}

TEST(Split, ManySplitsLeaveNoCommunicatorBehind) {
  // There are 65,530 of them: a sweep over clusterings in one process must not use them up.
  const MPI_Fint before = next_handle();
  for (int i = 0; i < 500; ++i) {
    auto team = ClusterCommunicator::split(world(), i % 3 - 1, Backend::kMpi);
    auto other = ClusterCommunicator::split(world(), 0, Backend::kMpi);
    team = std::move(other);  // the first one goes
    if (i % 2 == 0) {
      team.close();
    }
    if (i % 100 == 0) {
      EXPECT_LE(next_handle(), before + 2) << "after " << 2 * i << " splits";
    }
  }
  EXPECT_EQ(next_handle(), before);
}

TEST(UniqueComm, HasOneOwner) {
  MPI_Comm raw = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &raw), "MPI_Comm_dup");
  UniqueComm a(raw);
  UniqueComm b(std::move(a));
  EXPECT_FALSE(a.valid());  // NOLINT(bugprone-use-after-move): the state is documented
  EXPECT_TRUE(b.valid());
  UniqueComm c;
  c = std::move(b);
  EXPECT_FALSE(b.valid());  // NOLINT(bugprone-use-after-move)
  c.free();
  c.free();
  EXPECT_FALSE(c.valid());
}

}  // namespace
}  // namespace apo::comm
