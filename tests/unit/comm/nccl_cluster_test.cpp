// The NCCL back end, compiled against the test double of NCCL and the CUDA runtime: results, order
// of calls, life time. How it fails is in nccl_failure_test.cpp.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_fixture.hpp"

#include "apo/comm/exact_sum.hpp"

namespace apo::comm {
namespace {

using nccl_double::calls;

constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMax, Reduction::kMin};

/// Small integers of either sign: sums are exact in each type, whatever the order.
template <class T>
std::vector<T> numbers(std::size_t n, int rank, int salt) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto mixed = static_cast<std::int64_t>(
        (i * 37 + static_cast<std::size_t>(rank) * 101 + static_cast<std::size_t>(salt) * 13) %
        2003);
    values[i] = static_cast<T>(mixed - 1001);
  }
  return values;
}

template <class T>
void expect_same_reductions(ClusterCommunicator& mpi, ClusterCommunicator& nccl, std::size_t n) {
  for (const Reduction op : kReductions) {
    auto expected = numbers<T>(n, mpi.rank(), static_cast<int>(op));
    auto values = expected;
    mpi.all_reduce(std::span<T>(expected), op);
    nccl.all_reduce(std::span<T>(values), op);
    EXPECT_EQ(values, expected) << n << " numbers, reduction " << static_cast<int>(op);
  }
}

template <class T>
void expect_same_broadcasts(ClusterCommunicator& mpi, ClusterCommunicator& nccl, std::size_t n) {
  for (int root = 0; root < mpi.size(); ++root) {
    auto expected = numbers<T>(n, mpi.rank(), 5);
    auto values = expected;
    mpi.broadcast(std::span<T>(expected), root);
    nccl.broadcast(std::span<T>(values), root);
    EXPECT_EQ(values, expected) << n << " numbers, root " << root;
  }
}

/// The operations that go over MPI with both back ends.
void expect_same_host_operations(ClusterCommunicator& mpi, ClusterCommunicator& nccl) {
  const auto in = numbers<double>(7, mpi.rank(), 1);
  std::vector<double> expected(7 * static_cast<std::size_t>(mpi.size()));
  std::vector<double> out(expected.size());
  mpi.all_gather(in, expected);
  nccl.all_gather(in, out);
  EXPECT_EQ(out, expected);

  std::string text = "from rank " + std::to_string(nccl.rank());
  const std::string expected_text = "from rank " + std::to_string(nccl.size() - 1);
  nccl.broadcast(text, nccl.size() - 1);
  std::string same = "from rank " + std::to_string(mpi.rank());
  mpi.broadcast(same, mpi.size() - 1);
  EXPECT_EQ(text, expected_text);
}

class NcclCluster : public NcclTest {};

TEST_F(NcclCluster, EveryOperationEqualsTheMpiBackEnd) {
  for (const int color : {0, world().rank() % 2}) {
    auto mpi = ClusterCommunicator::split(world(), color, Backend::kMpi);
    auto nccl = ClusterCommunicator::split(world(), color, Backend::kNccl);
    EXPECT_EQ(nccl.backend(), Backend::kNccl);
    EXPECT_EQ(nccl.rank(), mpi.rank());
    EXPECT_EQ(nccl.size(), mpi.size());
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1003}}) {
      expect_same_reductions<double>(mpi, nccl, n);
      expect_same_reductions<float>(mpi, nccl, n);
      expect_same_reductions<std::int64_t>(mpi, nccl, n);
      expect_same_broadcasts<double>(mpi, nccl, n);
      expect_same_broadcasts<float>(mpi, nccl, n);
    }
    expect_same_host_operations(mpi, nccl);
    EXPECT_EQ(nccl.bytes_moved(), mpi.bytes_moved());
    EXPECT_GT(num_calls("ncclAllReduce"), 0) << "the numbers went through the device";
    nccl.close();
    mpi.close();
  }
}

TEST_F(NcclCluster, IntegersOfTheExactSumKeepAllTheirBits) {
  // Fixed-point sums use the whole of 64 bits; a detour through floating point would lose the last.
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  const int p = team.size();
  const std::int64_t large = (std::numeric_limits<std::int64_t>::max() / p) - team.rank();
  std::int64_t expected = 0;
  for (int r = 0; r < p; ++r) {
    expected += std::numeric_limits<std::int64_t>::max() / p - r;
  }
  std::vector<std::int64_t> sum{large, -large};
  team.all_reduce(std::span<std::int64_t>(sum), Reduction::kSum);
  EXPECT_EQ(sum, (std::vector<std::int64_t>{expected, -expected}));
  std::vector<std::int64_t> exponent{std::numeric_limits<std::int64_t>::min() + team.rank()};
  team.all_reduce(std::span<std::int64_t>(exponent), Reduction::kMax);
  EXPECT_EQ(exponent[0], std::numeric_limits<std::int64_t>::min() + p - 1);
  team.close();
}

TEST_F(NcclCluster, ExactSumHasTheSameBits) {
  auto mpi = ClusterCommunicator::split(world(), 0, Backend::kMpi);
  auto nccl = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  constexpr std::size_t kNumbers = 5000;  // two blocks
  constexpr std::size_t kTerms = 2;       // of each rank
  const auto add = [&](std::size_t term, std::size_t begin, std::span<double> slice) {
    for (std::size_t i = 0; i < slice.size(); ++i) {  // over some decades, of both signs
      const auto k = static_cast<double>(begin + i + 1) * static_cast<double>(term + 2) +
                     static_cast<double>(nccl.rank());
      slice[i] += std::sin(k) * std::pow(10.0, std::fmod(k, 9.0));
    }
  };
  std::vector<double> expected(kNumbers);
  std::vector<double> sum(kNumbers);
  const std::size_t max_terms = kTerms * static_cast<std::size_t>(nccl.size());
  exact_sum(mpi, expected, kTerms, max_terms, add);
  exact_sum(nccl, sum, kTerms, max_terms, add);
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(nccl.bytes_moved(), mpi.bytes_moved());
  nccl.close();
  mpi.close();
}

TEST_F(NcclCluster, LongBuffersPassInPieces) {
  if (world().size() > 2) {
    GTEST_SKIP() << "the memory of two ranks is enough";
  }
  constexpr std::size_t kPiece = (std::size_t{64} << 20) / sizeof(double);
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  std::vector<double> values(kPiece + 1000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(i) * (team.rank() + 1);
  }
  team.all_reduce(std::span<double>(values), Reduction::kSum);
  const double factor = team.size() * (team.size() + 1) / 2.0;
  std::size_t num_wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    num_wrong += values[i] == static_cast<double>(i) * factor ? 0 : 1;
  }
  EXPECT_EQ(num_wrong, 0U);
  EXPECT_EQ(num_calls("ncclAllReduce"), 2);
  EXPECT_EQ(team.bytes_moved(), static_cast<std::int64_t>(values.size() * sizeof(double)));
  team.close();
}

/// The calls in order without polls, of which there may be any number.
std::vector<std::string> calls_without_polls() {
  std::vector<std::string> result;
  for (const std::string& call : calls()) {
    if (call != "cudaStreamQuery" && call != "ncclCommGetAsyncError") {
      result.push_back(call);
    }
  }
  return result;
}

std::size_t position(const std::string& call, std::size_t from = 0) {
  const auto begin = calls().begin() + static_cast<std::ptrdiff_t>(from);
  return static_cast<std::size_t>(std::find(begin, calls().end(), call) - calls().begin());
}

TEST_F(NcclCluster, CallsComeInTheRequiredOrder) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  std::vector<double> values(10, 1.0);
  team.all_reduce(std::span<double>(values), Reduction::kSum);
  team.broadcast(std::span<double>(values), 0);
  team.close();
  std::vector<std::string> expected{"cudaSetDevice", "cudaStreamCreateWithFlags"};
  const auto expect_next = [&](std::initializer_list<const char*> more) {
    expected.insert(expected.end(), more.begin(), more.end());
  };
  if (world().rank() == 0) {
    expect_next({"ncclGetUniqueId"});
  }
  expect_next({"cudaSetDevice", "ncclCommInitRankConfig",        //
               "cudaSetDevice", "cudaMalloc", "cudaMallocHost",  //
               "cudaMemcpyAsync(in)", "ncclAllReduce", "cudaMemcpyAsync(out)", "cudaSetDevice"});
  if (world().rank() == 0) {  // the root's numbers go in, the others' come out
    expect_next({"cudaMemcpyAsync(in)", "ncclBroadcast"});
  } else {
    expect_next({"ncclBroadcast", "cudaMemcpyAsync(out)"});
  }
  expect_next({"cudaSetDevice", "ncclCommFinalize", "ncclCommDestroy", "cudaFree", "cudaFreeHost",
               "cudaStreamDestroy"});
  EXPECT_EQ(calls_without_polls(), expected);

  // NCCL's host side has to be through before anything is put on the stream behind the collective.
  const std::size_t launch = position("ncclAllReduce");
  EXPECT_EQ(calls()[launch + 1], "ncclCommGetAsyncError");
  const std::size_t copy = position("cudaMemcpyAsync(out)", launch);
  EXPECT_EQ(calls()[copy + 1], "cudaStreamQuery");
  EXPECT_EQ(calls()[copy + 2], "ncclCommGetAsyncError");
  EXPECT_EQ(calls()[position("ncclCommFinalize") + 1], "ncclCommGetAsyncError");
}

TEST_F(NcclCluster, BuffersAreKeptBetweenCalls) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  std::vector<double> values(1000, 1.0);
  for (const std::size_t n : {std::size_t{1000}, std::size_t{10}, std::size_t{999}}) {
    team.all_reduce(std::span<double>(values).first(n), Reduction::kSum);
    EXPECT_EQ(num_calls("cudaMalloc"), 1);
    EXPECT_EQ(num_calls("cudaMallocHost"), 1);
  }
  std::vector<float> more(2001, 1.0F);
  team.all_reduce(std::span<float>(more), Reduction::kSum);
  EXPECT_EQ(num_calls("cudaMalloc"), 2);
  EXPECT_EQ(nccl_double::live().device_buffers, 1) << "the smaller one was given back";
  team.close();
}

TEST_F(NcclCluster, WaitsForWorkInTheBackground) {
  set_nccl_limits({.timeout = 0.0, .grace = 10.0});  // no limit
  switches().init_polls = 50 * (world().rank() + 1);
  switches().launch_polls = 7;
  switches().finalize_polls = 200;
  auto mpi = ClusterCommunicator::split(world(), 0, Backend::kMpi);
  auto nccl = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  EXPECT_GT(num_calls("ncclCommGetAsyncError"), switches().init_polls);
  expect_same_reductions<double>(mpi, nccl, 100);
  expect_same_broadcasts<float>(mpi, nccl, 100);
  nccl.close();
  mpi.close();
}

TEST_F(NcclCluster, RanksMayArriveAtDifferentTimes) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  for (int late = 0; late < team.size(); ++late) {
    if (team.rank() == late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    std::vector<double> values{1.0};
    team.broadcast(std::span<double>(values), 0);  // the root is through before the others come
    team.all_reduce(std::span<double>(values), Reduction::kSum);
    EXPECT_EQ(values[0], team.size());
  }
  team.close();
}

TEST_F(NcclCluster, TeamsOfOneProcessShareTheStream) {
  auto all = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  auto half = ClusterCommunicator::split(world(), world().rank() % 2, Backend::kNccl);
  for (int i = 0; i < 3; ++i) {
    std::vector<double> values{1.0};
    half.all_reduce(std::span<double>(values), Reduction::kSum);
    EXPECT_EQ(values[0], half.size());
    all.all_reduce(std::span<double>(values), Reduction::kMax);
    EXPECT_EQ(values[0], (world().size() + 1) / 2);
  }
  EXPECT_EQ(nccl_double::live().streams, 1);
  all.close();
  EXPECT_EQ(nccl_double::live().streams, 1) << "the other team still needs it";
  half.close();
}

TEST_F(NcclCluster, MembersOfNoTeamTouchNoDevice) {
  switches().num_devices = world().rank() == 0 ? 1 : 0;  // and need none
  auto team = ClusterCommunicator::split(world(), world().rank() == 0 ? 0 : -1, Backend::kNccl);
  EXPECT_EQ(team.size(), world().rank() == 0 ? 1 : 0);
  std::vector<double> values{1.0};
  if (world().rank() == 0) {
    team.all_reduce(std::span<double>(values), Reduction::kSum);
  } else {
    EXPECT_TRUE(calls().empty());
    EXPECT_THROW(team.all_reduce(std::span<double>(values), Reduction::kSum), Error);
  }
  team.close();
}

TEST_F(NcclCluster, CloseIsIdempotentAndFinal) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  team.close();
  team.close();
  EXPECT_EQ(num_calls("ncclCommFinalize"), 1);
  EXPECT_EQ(num_calls("ncclCommDestroy"), 1);
  EXPECT_EQ(num_calls("ncclCommAbort"), 0);
  std::vector<double> values{1.0};
  EXPECT_THROW(team.all_reduce(std::span<double>(values), Reduction::kSum), Error);
  EXPECT_THROW(team.broadcast(std::span<double>(values), 0), Error);
  EXPECT_THROW(team.barrier(), Error);
}

TEST_F(NcclCluster, DestructionWithoutCloseAborts) {
  {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
    std::vector<double> values{1.0};
    team.all_reduce(std::span<double>(values), Reduction::kSum);
  }
  EXPECT_EQ(num_calls("ncclCommAbort"), 1);
  EXPECT_EQ(num_calls("ncclCommFinalize"), 0) << "it would wait for the other ranks";
  EXPECT_EQ(num_calls("ncclCommDestroy"), 0);
}

TEST_F(NcclCluster, HasOneOwner) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  auto moved = std::move(team);
  EXPECT_EQ(team.size(), 0);  // NOLINT(bugprone-use-after-move): the state is documented
  std::vector<double> values{1.0};
  EXPECT_THROW(team.all_reduce(std::span<double>(values), Reduction::kSum), Error);
  moved.all_reduce(std::span<double>(values), Reduction::kSum);
  EXPECT_EQ(values[0], world().size());
  EXPECT_EQ(num_calls("ncclCommAbort"), 0);
  auto other = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  moved = std::move(other);  // the first team goes, unclosed
  EXPECT_EQ(num_calls("ncclCommAbort"), 1);
  EXPECT_EQ(nccl_double::live().communicators, 1);
  moved.all_reduce(std::span<double>(values), Reduction::kSum);
  EXPECT_EQ(values[0], world().size() * world().size());
  moved.close();
  EXPECT_EQ(num_calls("ncclCommAbort"), 1);
}

TEST_F(NcclCluster, RootsAreChecked) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kNccl);
  std::vector<double> values{1.0};
  EXPECT_THROW(team.broadcast(std::span<double>(values), team.size()), Error);
  EXPECT_THROW(team.broadcast(std::span<double>(values), -1), Error);
  team.all_reduce(std::span<double>(values), Reduction::kSum);  // no harm done
  EXPECT_EQ(values[0], team.size());
  team.close();
}

TEST(NcclLimits, AreChecked) {
  EXPECT_THROW(set_nccl_limits({.timeout = -1.0, .grace = 1.0}), Error);
  EXPECT_THROW(set_nccl_limits({.timeout = std::numeric_limits<double>::infinity(), .grace = 1.0}),
               Error);
  EXPECT_THROW(set_nccl_limits({.timeout = 1.0, .grace = 0.0}), Error);
  set_nccl_limits({.timeout = 0.0, .grace = 2.0});
  EXPECT_EQ(nccl_limits().timeout, 0.0);
  EXPECT_EQ(nccl_limits().grace, 2.0);
  set_nccl_limits({});
  EXPECT_EQ(nccl_limits().timeout, 600.0);
}

}  // namespace
}  // namespace apo::comm
