#include <cmath>
#include <cstring>

#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

#include "apo/core/rng.hpp"
#include "apo/federation/round_scheme.hpp"

namespace apo::federation {
namespace {

using test::world;

constexpr std::size_t kClients = 11;
constexpr std::size_t kNumbers = 2500;

std::vector<double> term_of(std::size_t client) {
  CounterRng rng({5, Purpose::kTest, client, 0, 0});
  std::vector<double> term(kNumbers);
  for (double& x : term) {
    x = rng.normal() * std::pow(10.0, static_cast<double>(rng.below(13)) - 6.0);
  }
  return term;
}

/// Sum over the clients, client c on rank owner(c).
template <class Owner>
std::vector<double> sum_with(bool reproducible, const Owner& owner) {
  std::vector<std::vector<double>> mine;
  for (std::size_t c = 0; c < kClients; ++c) {
    if (owner(c) == static_cast<std::size_t>(world().rank())) {
      mine.push_back(term_of(c));
    }
  }
  std::vector<double> sum(kNumbers, std::nan(""));
  sum_over_team(world().all(), reproducible, sum, mine.size(), kClients,
                [&](std::size_t term, std::size_t begin, std::span<double> slice) {
                  for (std::size_t k = 0; k < slice.size(); ++k) {
                    slice[k] += mine[term][begin + k];
                  }
                });
  return sum;
}

TEST(SumOverTeam, DoesNotDependOnWhoHoldsWhichClient) {
  const auto ranks = static_cast<std::size_t>(world().size());
  const std::vector<double> blocks =
      sum_with(true, [&](std::size_t c) { return c * ranks / kClients; });
  const std::vector<double> dealt = sum_with(true, [&](std::size_t c) { return c % ranks; });
  const std::vector<double> alone = sum_with(true, [&](std::size_t) { return ranks - 1; });
  for (const auto* other : {&dealt, &alone}) {
    EXPECT_EQ(std::memcmp(blocks.data(), other->data(), kNumbers * sizeof(double)), 0);
  }
  std::vector<long double> serial(kNumbers, 0.0L);
  long double largest = 0.0L;
  for (std::size_t c = 0; c < kClients; ++c) {
    const std::vector<double> term = term_of(c);
    for (std::size_t k = 0; k < kNumbers; ++k) {
      serial[k] += static_cast<long double>(term[k]);
      largest = std::max(largest, std::abs(static_cast<long double>(term[k])));
    }
  }
  const std::vector<double> fast = sum_with(false, [&](std::size_t c) { return c % ranks; });
  for (std::size_t k = 0; k < kNumbers; ++k) {
    EXPECT_NEAR(blocks[k], static_cast<double>(serial[k]),
                static_cast<double>(largest) * kClients * std::ldexp(1.0, -48));
    EXPECT_NEAR(fast[k], static_cast<double>(serial[k]), 1e-6 * static_cast<double>(largest));
  }
}

TEST(SumOverTeam, AnExceptionOnOneRankIsThrownOnAll) {
  for (const bool reproducible : {true, false}) {
    for (int failing = 0; failing < world().size(); ++failing) {
      std::vector<double> sum(kNumbers);
      try {
        sum_over_team(world().all(), reproducible, sum, 1, 20,
                      [&](std::size_t, std::size_t, std::span<double>) {
                        if (world().rank() == failing) {
                          throw Error(Fault::kData, "client 7 is gone");
                        }
                      });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::kData);
        EXPECT_NE(std::string(error.what()).find("client 7 is gone"), std::string::npos);
      }
    }
  }
}

TEST(SumOverTeam, OnePayload) {
  for (const bool reproducible : {true, false}) {
    auto team = comm::ClusterCommunicator::split(world(), 0, comm::Backend::kMpi);
    std::vector<double> sum(kNumbers);
    sum_over_team(team, reproducible, sum, 0, 20,
                  [](std::size_t, std::size_t, std::span<double>) {});
    const std::int64_t payload = bytes_of_sum(kNumbers, reproducible);
    EXPECT_EQ(payload, static_cast<std::int64_t>(kNumbers * (reproducible ? 8 : 4)));
    EXPECT_GE(team.bytes_moved(), payload);
    EXPECT_LE(team.bytes_moved(), payload + 64);
    team.close();
  }
}

}  // namespace
}  // namespace apo::federation
