#include "nccl_agreement.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace apo::comm {
namespace {

constexpr int kNoticeTag = 72;

}  // namespace

Deadline::Deadline(double seconds) : end_(std::chrono::steady_clock::time_point::max()) {
  if (seconds > 0.0) {
    end_ = std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
               std::chrono::duration<double>(seconds));
  }
}

bool Deadline::passed() const noexcept { return std::chrono::steady_clock::now() >= end_; }

void Backoff::pause() {
  constexpr int kYields = 100;
  if (num_pauses_ < kYields) {
    ++num_pauses_;
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// What MPI reads and writes after the call that started it.
struct TeamAgreement::Messages {
  int well = 1;
  int all_well = 1;
  MPI_Request reduce = MPI_REQUEST_NULL;
  std::int64_t notice = 0;
  std::vector<MPI_Request> sends;
};

TeamAgreement::TeamAgreement(MPI_Comm team, const NcclLimits& limits)
    : limits_(limits), messages_(std::make_unique<Messages>()) {
  // Its own communicator: an agreement that is never completed must not meet other collectives.
  MPI_Comm mine = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(team, &mine), "MPI_Comm_dup");
  comm_ = UniqueComm(mine);
  mpi_check(MPI_Comm_rank(mine, &rank_), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(mine, &size_), "MPI_Comm_size");
  heard_.assign(static_cast<std::size_t>(size_), 0);
}

TeamAgreement::~TeamAgreement() {
  if (!mpi_is_running()) {
    return;
  }
  bool idle = messages_->reduce == MPI_REQUEST_NULL;
  for (MPI_Request& request : messages_->sends) {
    int done = 0;
    idle = MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0 && idle;
  }
  if (!idle) {
    // A peer never came, and the job is about to end: until then MPI may still write here, and the
    // communicator cannot be freed.
    static std::vector<std::pair<UniqueComm, std::unique_ptr<Messages>>> abandoned;
    abandoned.emplace_back(std::move(comm_), std::move(messages_));
  }
}

bool TeamAgreement::peer_gave_up(std::int64_t sequence) {
  for (;;) {
    int found = 0;
    MPI_Status status;
    mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, comm_.get(), &found, &status), "MPI_Iprobe");
    if (found == 0) {
      break;
    }
    std::int64_t notice = 0;
    mpi_check(MPI_Recv(&notice, 1, MPI_INT64_T, status.MPI_SOURCE, kNoticeTag, comm_.get(),
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
    heard_[static_cast<std::size_t>(status.MPI_SOURCE)] = notice;
  }
  // An older notice is of a rank that gave up waiting just before the operation ended well. A newer
  // one is of a peer that has left this operation already.
  return std::find(heard_.begin(), heard_.end(), sequence) != heard_.end();
}

void TeamAgreement::give_notice(std::int64_t sequence) {
  if (std::exchange(heard_[static_cast<std::size_t>(rank_)], sequence) == sequence) {
    return;
  }
  for (MPI_Request& request : messages_->sends) {  // of an older notice, long received
    mpi_check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  }
  messages_->sends.clear();
  messages_->notice = sequence;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) {
      mpi_check(MPI_Isend(&messages_->notice, 1, MPI_INT64_T, peer, kNoticeTag, comm_.get(),
                          &messages_->sends.emplace_back(MPI_REQUEST_NULL)),
                "MPI_Isend");
    }
  }
}

bool TeamAgreement::all_gave_notice(std::int64_t sequence) const {
  return std::all_of(heard_.begin(), heard_.end(),
                     [&](std::int64_t last) { return last == sequence; });
}

std::vector<int> TeamAgreement::silent_ranks(std::int64_t sequence) const {
  std::vector<int> silent;
  for (int r = 0; r < size_; ++r) {
    if (heard_[static_cast<std::size_t>(r)] != sequence) {
      silent.push_back(r);
    }
  }
  return silent;
}

TeamAgreement::Outcome TeamAgreement::agree(std::int64_t sequence, bool well) {
  messages_->well = well ? 1 : 0;
  mpi_check(MPI_Iallreduce(&messages_->well, &messages_->all_well, 1, MPI_INT, MPI_MIN, comm_.get(),
                           &messages_->reduce),
            "MPI_Iallreduce");
  bool noticed = !well;
  if (noticed) {
    give_notice(sequence);
  }
  Deadline deadline(noticed ? limits_.grace : limits_.timeout);
  Backoff backoff;
  for (;;) {
    const bool told = peer_gave_up(sequence);
    int done = 0;
    mpi_check(MPI_Test(&messages_->reduce, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) {
      break;
    }
    if (!noticed && (told || deadline.passed())) {
      noticed = true;
      give_notice(sequence);  // peers that still wait inside the operation come here now
      deadline = Deadline(limits_.grace);
    } else if (deadline.passed()) {
      return Outcome::kUnanswered;
    }
    backoff.pause();
  }
  if (messages_->all_well != 0) {
    return Outcome::kWell;
  }
  // Every rank now gives exactly one notice to each other; taken in, none is left over.
  give_notice(sequence);
  deadline = Deadline(limits_.grace);
  while (!peer_gave_up(sequence) || !all_gave_notice(sequence)) {
    if (deadline.passed()) {
      return Outcome::kUnanswered;
    }
    backoff.pause();
  }
  return Outcome::kFailed;
}

}  // namespace apo::comm
