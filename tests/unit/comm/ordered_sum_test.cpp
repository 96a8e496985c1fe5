#include <cmath>
#include <cstring>

#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

#include "apo/core/rng.hpp"

namespace apo::comm {
namespace {

using test::world;

/// Term of one client over 13 decades, so that the order of additions shows in the bits.
std::vector<double> term_of(int client, std::size_t n) {
  CounterRng rng({7, Purpose::kTest, static_cast<std::uint64_t>(client), 0, 0});
  std::vector<double> term(n);
  for (double& x : term) {
    x = rng.normal() * std::pow(10.0, static_cast<double>(rng.below(13)) - 6.0);
  }
  return term;
}

bool same_bits(std::span<const double> a, std::span<const double> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Clients 0..C-1 in contiguous blocks that end at bounds[r]; blocks may be empty.
void check_against_serial_fold(const std::vector<int>& bounds, std::size_t n) {
  const int num_clients = bounds.back();
  std::vector<double> expected(n, 0.0);
  for (int k = 0; k < num_clients; ++k) {
    const auto term = term_of(k, n);
    for (std::size_t i = 0; i < n; ++i) {
      expected[i] += term[i];
    }
  }
  const auto rank = static_cast<std::size_t>(world().rank());
  const int first = rank == 0 ? 0 : bounds[rank - 1];
  std::vector<std::vector<double>> mine;
  for (int k = first; k < bounds[rank]; ++k) {
    mine.push_back(term_of(k, n));
  }
  std::vector<double> sum(n, std::nan(""));  // what is in it must not matter
  std::size_t next = 0;
  world().all().ordered_sum(sum, [&](std::size_t begin, std::span<double> slice) {
    EXPECT_EQ(begin, next) << "slices come in order and cover everything";
    next = begin + slice.size();
    for (const auto& term : mine) {
      for (std::size_t i = 0; i < slice.size(); ++i) {
        slice[i] += term[begin + i];
      }
    }
  });
  EXPECT_EQ(next, n);
  EXPECT_TRUE(same_bits(sum, expected)) << n << " numbers, " << num_clients << " clients";
}

std::vector<int> even_bounds(int num_clients) {
  std::vector<int> bounds;
  for (int r = 1; r <= world().size(); ++r) {
    bounds.push_back(num_clients * r / world().size());
  }
  return bounds;
}

TEST(OrderedSum, EqualsTheSerialLeftFoldBitByBit) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    check_against_serial_fold(even_bounds(24), n);
    check_against_serial_fold(even_bounds(25), n);  // uneven
  }
}

TEST(OrderedSum, PassesSeveralChunks) {
  check_against_serial_fold(even_bounds(7), (std::size_t{1} << 15) * 3 + 17);
}

TEST(OrderedSum, AcceptsEmptyShares) {
  const auto p = static_cast<std::size_t>(world().size());
  for (std::size_t owner = 0; owner < p; ++owner) {  // all clients on one rank
    std::vector<int> bounds(p, 0);
    for (std::size_t r = owner; r < p; ++r) {
      bounds[r] = 5;
    }
    check_against_serial_fold(bounds, 333);
  }
  check_against_serial_fold(std::vector<int>(p, 0), 10);  // nobody has a term
}

TEST(OrderedSum, TheTestWouldSeeAnotherOrder) {
  const std::size_t n = 1000;
  std::vector<double> forward(n, 0.0);
  std::vector<double> backward(n, 0.0);
  for (int k = 0; k < 24; ++k) {
    const auto a = term_of(k, n);
    const auto b = term_of(23 - k, n);
    for (std::size_t i = 0; i < n; ++i) {
      forward[i] += a[i];
      backward[i] += b[i];
    }
  }
  EXPECT_FALSE(same_bits(forward, backward));
}

TEST(OrderedSum, AnExceptionOnOneRankIsThrownOnAll) {
  for (int failing = 0; failing < world().size(); ++failing) {
    std::vector<double> sum((std::size_t{1} << 15) + 5);
    try {
      world().all().ordered_sum(sum, [&](std::size_t begin, std::span<double>) {
        if (world().rank() == failing && begin > 0) {  // in the middle of the chain
          throw Error(Fault::kData, "no adapter for client 12");
        }
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kData);
      EXPECT_NE(std::string(error.what()).find("no adapter for client 12"), std::string::npos);
    }
    check_against_serial_fold(even_bounds(6), 50);  // the communicator is still usable
  }
}

}  // namespace
}  // namespace apo::comm
