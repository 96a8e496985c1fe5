#include <cmath>
#include <numeric>

#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

namespace apo::comm {
namespace {

using test::world;

double value_of(int rank, std::size_t i) {
  return std::sin(1.0 + rank) * static_cast<double>(i % 97) + rank;
}

TEST(World, KnowsItsPlace) {
  EXPECT_GE(world().rank(), 0);
  EXPECT_LT(world().rank(), world().size());
  EXPECT_EQ(world().local_rank(), world().rank()) << "tests run on one host";
  EXPECT_FALSE(world().host().empty());
  EXPECT_NE(world().library_version().find("MPI"), std::string::npos);
  EXPECT_EQ(world().all().size(), world().size());
  EXPECT_EQ(world().all().rank(), world().rank());
  EXPECT_EQ(world().all().backend(), Backend::kMpi);
}

TEST(World, IsUniqueInTheProcess) { EXPECT_THROW(World(nullptr, nullptr), Error); }

template <class T>
void check_reductions(std::size_t n) {
  auto& all = world().all();
  std::vector<T> sum(n);
  std::vector<T> largest(n);
  std::vector<T> smallest(n);
  for (std::size_t i = 0; i < n; ++i) {  // small integers: exact in each type, so no tolerance
    sum[i] = static_cast<T>(static_cast<int>(i % 13) * (world().rank() + 1));
    largest[i] = smallest[i] = static_cast<T>((world().rank() * 7 + static_cast<int>(i)) % 5 - 2);
  }
  all.all_reduce(std::span<T>(sum), Reduction::kSum);
  all.all_reduce(std::span<T>(largest), Reduction::kMax);
  all.all_reduce(std::span<T>(smallest), Reduction::kMin);
  const int p = world().size();
  for (std::size_t i = 0; i < n; ++i) {
    int expected_max = -10;
    int expected_min = 10;
    for (int r = 0; r < p; ++r) {
      expected_max = std::max(expected_max, (r * 7 + static_cast<int>(i)) % 5 - 2);
      expected_min = std::min(expected_min, (r * 7 + static_cast<int>(i)) % 5 - 2);
    }
    ASSERT_EQ(sum[i], static_cast<T>(static_cast<int>(i % 13) * p * (p + 1) / 2)) << i;
    ASSERT_EQ(largest[i], static_cast<T>(expected_max)) << i;
    ASSERT_EQ(smallest[i], static_cast<T>(expected_min)) << i;
  }
}

TEST(Collectives, AllReduceMatchesASerialLoop) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1003}}) {
    check_reductions<double>(n);
    check_reductions<float>(n);
    check_reductions<std::int64_t>(n);
  }
}

TEST(Collectives, AllGatherOfNumbersIsInRankOrder) {
  const auto p = static_cast<std::size_t>(world().size());
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{17}}) {
    std::vector<double> in(n);
    for (std::size_t i = 0; i < n; ++i) {
      in[i] = value_of(world().rank(), i);
    }
    std::vector<double> out(n * p, -1.0);
    world().all().all_gather(in, out);
    for (std::size_t r = 0; r < p; ++r) {
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(out[r * n + i], value_of(static_cast<int>(r), i));
      }
    }
  }
  std::vector<double> in(2);
  std::vector<double> wrong(2 * p + 1);
  EXPECT_THROW(world().all().all_gather(in, wrong), Error);  // on all ranks: nobody waits
}

TEST(Collectives, AllGatherOfStringsKeepsLengthsAndBytes) {
  const auto text_of = [](int rank) {  // rank 0 gives nothing; the others have zeros inside
    return rank == 0 ? std::string()
                     : std::string(static_cast<std::size_t>(rank) * 1000, 'a') +
                           std::string(3, '\0') + std::to_string(rank);
  };
  const auto all = world().all().all_gather(text_of(world().rank()));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world().size()));
  for (int r = 0; r < world().size(); ++r) {
    EXPECT_EQ(all[static_cast<std::size_t>(r)], text_of(r));
  }
}

TEST(Collectives, BroadcastFromEveryRoot) {
  for (int root = 0; root < world().size(); ++root) {
    std::vector<double> doubles(5, world().rank());
    std::vector<float> floats(3, static_cast<float>(world().rank()));
    std::string text(static_cast<std::size_t>(world().rank() + 1), static_cast<char>('a' + root));
    world().all().broadcast(std::span<double>(doubles), root);
    world().all().broadcast(std::span<float>(floats), root);
    world().all().broadcast(text, root);
    EXPECT_EQ(doubles, std::vector<double>(5, root));
    EXPECT_EQ(floats, std::vector<float>(3, static_cast<float>(root)));
    EXPECT_EQ(text, std::string(static_cast<std::size_t>(root + 1), static_cast<char>('a' + root)));
  }
  std::vector<double> one(1);
  EXPECT_THROW(world().all().broadcast(std::span<double>(one), world().size()), Error);
  EXPECT_THROW(world().all().broadcast(std::span<double>(one), -1), Error);
}

TEST(Split, MakesTeamsInWorldOrder) {
  const int color = world().rank() % 2;
  auto team = ClusterCommunicator::split(world(), color, Backend::kMpi);
  EXPECT_EQ(team.size(), (world().size() + 1 - color) / 2);
  EXPECT_EQ(team.rank(), world().rank() / 2);
  std::vector<double> sum{static_cast<double>(world().rank())};
  team.all_reduce(std::span<double>(sum), Reduction::kSum);
  double expected = 0.0;
  for (int r = color; r < world().size(); r += 2) {
    expected += r;
  }
  EXPECT_EQ(sum[0], expected);
  team.close();
  team.close();
  EXPECT_THROW(team.barrier(), Error);
}

TEST(Split, LeavesOutNegativeColors) {
  auto team = ClusterCommunicator::split(world(), world().rank() == 0 ? -1 : 3, Backend::kMpi);
  if (world().rank() == 0) {
    EXPECT_EQ(team.size(), 0);
    EXPECT_EQ(team.rank(), -1);
    EXPECT_THROW(team.barrier(), Error);
  } else {
    EXPECT_EQ(team.size(), world().size() - 1);
    EXPECT_EQ(team.rank(), world().rank() - 1);
    team.barrier();
  }
  team.close();
}

TEST(Split, CanBeMovedAndClosedOrNot) {
  for (int i = 0; i < 20; ++i) {
    auto team = ClusterCommunicator::split(world(), 0, Backend::kMpi);
    auto moved = std::move(team);
    EXPECT_EQ(team.size(), 0);  // NOLINT(bugprone-use-after-move): the state is documented
    EXPECT_THROW(team.barrier(), Error);
    EXPECT_EQ(moved.size(), world().size());
    if (i % 2 == 0) {
      moved.close();
    }
  }
}

TEST(Collectives, BytesAreCountedOncePerCollective) {
  auto team = ClusterCommunicator::split(world(), 0, Backend::kMpi);
  EXPECT_EQ(team.bytes_moved(), 0);
  std::vector<float> values(100);
  team.all_reduce(std::span<float>(values), Reduction::kSum);
  EXPECT_EQ(team.bytes_moved(), 400);
  std::vector<double> sum(10);
  team.all_reduce(std::span<double>(sum), Reduction::kSum);
  EXPECT_EQ(team.bytes_moved(), 480);
  team.close();
}

}  // namespace
}  // namespace apo::comm
