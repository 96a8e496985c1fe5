#pragma once

/// @file
/// How the ranks of a team learn, over MPI and within a time limit, that an operation of another
/// library failed on any of them. Knows nothing of that library. Private to comm.

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi_support.hpp"

#include "apo/comm/nccl_limits.hpp"

namespace apo::comm {

class Deadline {
 public:
  explicit Deadline(double seconds);  ///< from now; 0: never
  [[nodiscard]] bool passed() const noexcept;

 private:
  std::chrono::steady_clock::time_point end_;
};

/// Pauses between two polls: short at first, since most operations end soon.
class Backoff {
 public:
  void pause();

 private:
  int num_pauses_ = 0;
};

/// Operations of the team are numbered by their caller, 1, 2, 3, ..., equally on all ranks.
///
/// A rank that gives an operation up tells its peers by a notice, which they find while they wait
/// inside that operation; agree() then ends the operation on all ranks with the same outcome.
class TeamAgreement {
 public:
  enum class Outcome {
    kWell,        ///< all ranks were well
    kFailed,      ///< some rank was not, and all ranks know it
    kUnanswered,  ///< some rank did not answer: MPI among the ranks of the team is of no use now
  };

  /// Collective over `team`, whose handle is not kept.
  TeamAgreement(MPI_Comm team, const NcclLimits& limits);
  ~TeamAgreement();
  TeamAgreement(const TeamAgreement&) = delete;
  TeamAgreement& operator=(const TeamAgreement&) = delete;

  /// True when a peer has given up `sequence`. Not collective. Also keeps MPI's messages moving for
  /// peers that are elsewhere in MPI: every loop that waits has to call it.
  [[nodiscard]] bool peer_gave_up(std::int64_t sequence);

  /// Collective; every rank calls it at the end of every operation, well or not. Takes at most
  /// timeout + grace.
  [[nodiscard]] Outcome agree(std::int64_t sequence, bool well);

  /// After kUnanswered: the ranks of the team from which nothing was heard.
  [[nodiscard]] std::vector<int> silent_ranks(std::int64_t sequence) const;

 private:
  struct Messages;

  void give_notice(std::int64_t sequence);
  [[nodiscard]] bool all_gave_notice(std::int64_t sequence) const;

  UniqueComm comm_;
  NcclLimits limits_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::int64_t> heard_;  ///< [size] last operation given up by each rank; 0: none
  std::unique_ptr<Messages> messages_;
};

}  // namespace apo::comm
