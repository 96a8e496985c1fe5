#pragma once

/// @file
/// One communicator of the double, and what it does in the background.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "double_messages.hpp"

namespace nccl_double {

/// Kinds of messages: each communicator has tags of its own.
inline constexpr int kSetupTag = 0;
inline constexpr int kTableTag = 1;
inline constexpr int kDataTag = 2;
inline constexpr int kGoodbyeTag = 3;

}  // namespace nccl_double

using nccl_double::Exchange;

struct ncclComm {
  enum class Phase { kInit, kReady, kFinalizing, kFinalized, kGone };

  int rank = 0;
  int size = 0;
  int creator = 0;  ///< its rank in the world
  int number = 0;   ///< of the unique id
  std::vector<int> world_ranks;
  Phase phase = Phase::kInit;
  ncclResult_t error = ncclSuccess;
  std::string text;
  int polls_left = 0;
  bool stuck = false;
  bool has_answered = false;  ///< the creator, having all addresses
  Exchange setup;             ///< addresses to the creator
  Exchange table;             ///< addresses from the creator
  Exchange goodbye;           ///< finalize
  std::vector<std::shared_ptr<Exchange>> collectives;
  std::int64_t num_collectives = 0;
  std::function<void()> launch;  ///< of the collective whose host side is in progress

  [[nodiscard]] int tag(int kind) const { return 1000 + 4 * number + kind; }
  void fail(ncclResult_t code, const char* why) {
    error = code;
    text = why;
  }
};

namespace nccl_double {

/// What happens between two polls: the exchange of addresses, the launch of a collective, the
/// farewell of finalize; or the error that the switches ask for.
void advance_background(ncclComm& comm);

}  // namespace nccl_double
