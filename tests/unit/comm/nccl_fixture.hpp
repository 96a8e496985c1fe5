#pragma once

/// @file
/// For the tests of the NCCL back end against the test double.

#include <functional>
#include <string>
#include <vector>

#include "nccl_double/nccl_double.hpp"
#include "support/mpi_world.hpp"
#include <gtest/gtest.h>

#include "apo/comm/nccl_limits.hpp"

namespace apo::comm {

/// Starts with a well-behaved double; ends with a look at what it saw and what was left behind.
class NcclTest : public testing::Test {
 protected:
  void SetUp() override {
    nccl_double::reset();
    set_nccl_limits({.timeout = 30.0, .grace = 10.0});
  }

  void TearDown() override {
    EXPECT_TRUE(nccl_double::violations().empty())
        << nccl_double::violations().size()
        << " violations, the first: " << nccl_double::violations().front();
    EXPECT_EQ(nccl_double::live(), nccl_double::Live{}) << "handles were left behind";
    set_nccl_limits({});
  }

  [[nodiscard]] static World& world() { return test::world(); }
  [[nodiscard]] static nccl_double::Switches& switches() { return nccl_double::switches(); }
  [[nodiscard]] static int num_calls(const std::string& name) {
    return nccl_double::count_calls(name);
  }
};

struct Caught {
  Fault fault = Fault::kInternal;
  long code = 0;  ///< of a BackendError
  std::string text;

  [[nodiscard]] bool says(const std::string& part) const {
    return text.find(part) != std::string::npos;
  }
};

inline Caught thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const BackendError& error) {
    return {error.fault(), error.code(), error.what()};
  } catch (const Error& error) {
    return {error.fault(), 0, error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline std::string rank_text(int rank) { return "world rank " + std::to_string(rank); }

/// All ranks of the world, as messages name them: "world ranks 0-3".
inline std::string all_ranks_text() {
  const int p = test::world().size();
  return p == 1 ? "world rank 0" : "world ranks 0-" + std::to_string(p - 1);
}

/// Those with the parity of `first`, 0 or 1: "world ranks 0, 2".
inline std::string half_text(int first) {
  std::string text = std::to_string(first);
  int count = 1;
  for (int r = first + 2; r < test::world().size(); r += 2) {
    text += ", " + std::to_string(r);
    ++count;
  }
  return (count == 1 ? "world rank " : "world ranks ") + text;
}

class NcclFailure : public NcclTest {
 protected:
  /// Runs `body` once per rank, which then is the one that has trouble.
  static void for_each_rank(const std::function<void(int troubled)>& body) {
    for (int r = 0; r < world().size(); ++r) {
      nccl_double::reset();
      body(r);
    }
  }

  [[nodiscard]] static bool is_me(int rank) { return world().rank() == rank; }

  static void reduce_one(ClusterCommunicator& team) {
    std::vector<double> values{1.0};
    team.all_reduce(std::span<double>(values), Reduction::kSum);
    EXPECT_EQ(values[0], team.size());
  }

  /// One error on all ranks, and no handle of NCCL survives it.
  static void expect_agreed(const Caught& caught) {
    for (const std::string& other : world().all().all_gather(caught.text)) {
      EXPECT_EQ(other, caught.text);
    }
    EXPECT_EQ(nccl_double::live(), nccl_double::Live{});
    EXPECT_EQ(num_calls("ncclCommDestroy"), 0) << "after an error there is only ncclCommAbort";
  }

  /// The team after its failure: the host half works, the NCCL half refuses, on all ranks.
  static void expect_given_up(ClusterCommunicator& team) {
    EXPECT_EQ(num_calls("ncclCommAbort"), 1);
    std::vector<double> values{1.0};
    const Caught refusal =
        thrown_by([&] { team.all_reduce(std::span<double>(values), Reduction::kSum); });
    EXPECT_EQ(refusal.fault, Fault::kInternal);
    EXPECT_TRUE(refusal.says("given up")) << refusal.text;
    team.barrier();
    team.close();
    EXPECT_EQ(num_calls("ncclCommFinalize"), 0);
  }
};

}  // namespace apo::comm
