#include <algorithm>
#include <cstring>
#include <utility>

#include "mpi_cluster.hpp"
#include "nccl_agreement.hpp"
#include "nccl_device.hpp"
#include "nccl_fuse.hpp"
#include "nccl_lane.hpp"
#include "nccl_verdict.hpp"
#include <fmt/format.h>

#include "apo/comm/nccl_limits.hpp"
#include "apo/comm/world.hpp"

namespace apo::comm {
namespace {

ncclRedOp_t nccl_op(Reduction op) {
  switch (op) {
    case Reduction::kSum:
      return ncclSum;
    case Reduction::kMax:
      return ncclMax;
    case Reduction::kMin:
      return ncclMin;
  }
  throw Error(Fault::kInternal, "unknown reduction");
}

/// One team over one non-blocking NCCL communicator.
///
/// Every operation is started and then polled: the stream, NCCL's asynchronous error, the peers'
/// notices and the time limit. It ends in an agreement over MPI (TeamAgreement), so that either all
/// ranks return, or all of them abort the NCCL communicator and throw the same BackendError. After
/// that the team still has its MPI half; its NCCL half refuses. The contents of a caller's buffer
/// are unspecified after a failure.
class NcclCluster final : public MpiCluster {
 public:
  NcclCluster(UniqueComm team, const NcclLimits& limits)
      : MpiCluster(std::move(team)), limits_(limits) {}

  ~NcclCluster() override {
    // Never finalize here: it waits for the other ranks.
    abort_communicator("the team was destroyed without close()");
  }

  [[nodiscard]] Backend backend() const noexcept override { return Backend::kNccl; }

  /// Collective over the team.
  void connect(int device, int world_rank) {
    world_ranks_.resize(static_cast<std::size_t>(size()));
    mpi_check(MPI_Allgather(&world_rank, 1, MPI_INT, world_ranks_.data(), 1, MPI_INT, mpi_comm()),
              "MPI_Allgather");
    agreement_ = std::make_unique<TeamAgreement>(mpi_comm(), limits_);
    ncclUniqueId id{};
    together("ncclGetUniqueId", [&](const Deadline&) {
      lane_ = DeviceLane::of_process(device);
      if (rank() == 0) {
        nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
      }
    });
    mpi_check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, mpi_comm()), "MPI_Bcast");
    together("ncclCommInitRankConfig", [&](const Deadline& deadline) {
      const DeviceLane::Turn turn(*lane_);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      nccl_check(ncclCommInitRankConfig(&nccl_, size(), id, rank(), &config),
                 "ncclCommInitRankConfig", nccl_);
      wait_for_host("ncclCommInitRankConfig", deadline);
    });
  }

  void all_reduce(std::span<double> values, Reduction op) override {
    staged_all_reduce(values, ncclDouble, op);
  }
  void all_reduce(std::span<float> values, Reduction op) override {
    staged_all_reduce(values, ncclFloat, op);
  }
  void all_reduce(std::span<std::int64_t> values, Reduction op) override {
    staged_all_reduce(values, ncclInt64, op);
  }

  using MpiCluster::broadcast;
  void broadcast(std::span<double> values, int root) override { staged_broadcast(values, root); }
  void broadcast(std::span<float> values, int root) override { staged_broadcast(values, root); }

  void close() override {
    if (nccl_ != nullptr) {
      together("ncclCommFinalize", [&](const Deadline& deadline) {
        const DeviceLane::Turn turn(*lane_);
        nccl_check(ncclCommFinalize(nccl_), "ncclCommFinalize", nccl_);
        wait_for_host("ncclCommFinalize", deadline);
      });
    }
    const ncclResult_t code = destroy_communicator();
    agreement_.reset();
    MpiCluster::close();
    if (code != ncclSuccess) {
      throw BackendError("ncclCommDestroy", code, ncclGetErrorString(code));
    }
  }

  /// After a failure: what was thrown, and whether all ranks of the team threw it.
  [[nodiscard]] const Verdict& failure() const noexcept { return failure_; }
  [[nodiscard]] bool is_unanswered() const noexcept { return is_unanswered_; }

 private:
  [[nodiscard]] Operation operation(const char* call) const {
    return {.call = call, .sequence = sequence_, .world_ranks = world_ranks_, .limits = limits_};
  }

  /// A line of a process that ends without any error handling: "[rank 3 host] ncclCommAbort did not
  /// return within 30 s; operation 7 of the team of world ranks 2-4; <reason>".
  [[nodiscard]] std::string last_words(const char* call, std::string_view reason) const {
    const int world_rank =
        world_ranks_.empty() ? -1 : world_ranks_[static_cast<std::size_t>(rank())];
    return fmt::format("[rank {} {}] {} did not return within {} s; {}; {}", world_rank,
                       host_name(), call, limits_.grace, operation(call).text(), reason);
  }

  /// Local: all ranks have finalized.
  [[nodiscard]] ncclResult_t destroy_communicator() {
    ncclResult_t code = ncclSuccess;
    if (nccl_ != nullptr || lane_ != nullptr) {
      const ExitFuse fuse(limits_.grace, last_words("ncclCommDestroy", "the team was closed"));
      if (nccl_ != nullptr) {
        code = ncclCommDestroy(std::exchange(nccl_, nullptr));
      }
      lane_.reset();
    }
    return code;
  }

  void abort_communicator(std::string_view reason) {
    if (nccl_ != nullptr || lane_ != nullptr) {
      // Memory cannot be freed while a kernel runs, so the release may hang where the abort did
      // not.
      const ExitFuse fuse(limits_.grace, last_words("ncclCommAbort", reason));
      if (nccl_ != nullptr) {
        ncclCommAbort(std::exchange(nccl_, nullptr));
      }
      lane_.reset();
    }
  }

  /// Runs one operation on all ranks of the team. Collective.
  ///
  /// @param call  for the message, when the operation does not end in time
  /// @param work  gets the deadline; throws when this rank cannot finish
  /// @throws BackendError, or Error with another fault: the same on all ranks
  template <class Work>
  void together(const char* call, const Work& work) {
    ++sequence_;
    Verdict mine;
    try {
      work(Deadline(limits_.timeout));
    } catch (const Unfinished&) {
      mine.kind = Verdict::Kind::kUnfinished;
    } catch (const CallError& error) {
      mine = error.verdict();
    } catch (const Error& error) {
      mine = {.kind = Verdict::Kind::kFailed,
              .fault = error.fault(),
              .code = -1,
              .call = call,
              .text = error.what()};
    } catch (const std::exception& error) {
      mine = {.kind = Verdict::Kind::kFailed,
              .fault = Fault::kInternal,
              .code = -1,
              .call = call,
              .text = error.what()};
    }
    const auto outcome = agreement_->agree(sequence_, mine.kind == Verdict::Kind::kWell);
    if (outcome != TeamAgreement::Outcome::kWell) {
      is_unanswered_ = outcome == TeamAgreement::Outcome::kUnanswered;
      failure_ = is_unanswered_
                     ? without_answer(agreement_->silent_ranks(sequence_), mine, operation(call))
                     : common_cause(all_verdicts(mine), operation(call));
      abort_communicator(failure_.text);
      raise(failure_);
    }
  }

  /// [size()]; collective.
  [[nodiscard]] std::vector<Verdict> all_verdicts(const Verdict& mine) {
    std::vector<Verdict> verdicts;
    for (const std::string& packed : MpiCluster::all_gather(pack(mine))) {
      verdicts.push_back(unpack(packed));
    }
    return verdicts;
  }

  /// Looks for an asynchronous error; true while NCCL's host side is still in progress.
  [[nodiscard]] bool host_in_progress(const char* call) {
    ncclResult_t state = ncclSuccess;
    nccl_check(ncclCommGetAsyncError(nccl_, &state), "ncclCommGetAsyncError", nccl_);
    nccl_check(state, call, nccl_);
    return state == ncclInProgress;
  }

  void pause(const Deadline& deadline, Backoff& backoff) {
    if (agreement_->peer_gave_up(sequence_) || deadline.passed()) {
      throw Unfinished();
    }
    backoff.pause();
  }

  void wait_for_host(const char* call, const Deadline& deadline) {
    for (Backoff backoff; host_in_progress(call);) {
      pause(deadline, backoff);
    }
  }

  void wait_for_stream(const char* call, const Deadline& deadline) {
    for (Backoff backoff;;) {
      const cudaError_t state = cudaStreamQuery(lane_->stream());
      // Also once after the end: the numbers of a collective with an error are not to be trusted.
      const bool in_progress = host_in_progress(call);
      if (state == cudaSuccess && !in_progress) {
        return;
      }
      if (state != cudaErrorNotReady) {
        cuda_check(state, "cudaStreamQuery");
      }
      pause(deadline, backoff);
    }
  }

  /// Passes `values` through the device piece by piece and runs `launch` on each piece.
  ///
  /// @param gives, takes  this rank's numbers go in; come out changed
  template <class T, class Launch>
  void staged(std::span<T> values, const char* call, bool gives, bool takes, const Launch& launch) {
    require_member();
    expects(nccl_ != nullptr, "collective call on an NCCL communicator that was given up");
    constexpr std::size_t kPiece = DeviceLane::kMaxBytes / sizeof(T);
    if (!values.empty()) {
      together(call, [&](const Deadline& deadline) {
        const DeviceLane::Turn turn(*lane_);
        lane_->reserve(std::min(kPiece, values.size()) * sizeof(T));
        for (std::size_t begin = 0; begin < values.size(); begin += kPiece) {
          const auto slice = values.subspan(begin, std::min(kPiece, values.size() - begin));
          if (gives) {
            std::memcpy(lane_->host(), slice.data(), slice.size_bytes());
            lane_->start_copy_in(slice.size_bytes());
          }
          nccl_check(launch(lane_->device(), slice.size()), call, nccl_);
          wait_for_host(call, deadline);  // until then the kernel may not be on the stream
          if (takes) {
            lane_->start_copy_out(slice.size_bytes());
          }
          wait_for_stream(call, deadline);
          if (takes) {
            std::memcpy(slice.data(), lane_->host(), slice.size_bytes());
          }
        }
      });
    }
    count_bytes(values.size_bytes());
  }

  template <class T>
  void staged_all_reduce(std::span<T> values, ncclDataType_t type, Reduction op) {
    const ncclRedOp_t operation = nccl_op(op);
    staged(values, "ncclAllReduce", true, true, [&](void* data, std::size_t count) {
      return ncclAllReduce(data, data, count, type, operation, nccl_, lane_->stream());
    });
  }

  template <class T>
  void staged_broadcast(std::span<T> values, int root) {
    require_member();
    require_root(root);
    const bool gives = rank() == root;
    staged(values, "ncclBroadcast", gives, !gives, [&](void* data, std::size_t count) {
      return ncclBroadcast(data, data, count * sizeof(T), ncclUint8, root, nccl_, lane_->stream());
    });
  }

  NcclLimits limits_;
  std::vector<int> world_ranks_;  ///< [size()]
  std::unique_ptr<TeamAgreement> agreement_;
  std::shared_ptr<DeviceLane> lane_;
  ncclComm_t nccl_ = nullptr;
  std::int64_t sequence_ = 0;  ///< operations begun: 1 and 2 make the team
  Verdict failure_;
  bool is_unanswered_ = false;
};

}  // namespace

std::unique_ptr<ClusterCommunicator::Impl> make_nccl_cluster(World& world, UniqueComm team) {
  const bool is_member = team.valid();
  const int device = choose_device(world, is_member);
  auto cluster = std::make_unique<NcclCluster>(std::move(team), nccl_limits());
  Failure failure;
  if (is_member) {
    failure.capture([&] { cluster->connect(device, world.rank()); });
  }
  if (cluster->is_unanswered()) {
    // The rank that is missing is missing in the world too: no collective can end any more.
    World::abort(exit_code(Fault::kBackend), failure.text);
  }
  // A team's failure is the same on all its ranks; the other teams get the lowest rank's.
  Verdict mine = cluster->failure();
  if (failure.any() && mine.kind == Verdict::Kind::kWell) {  // MPI failed
    mine.kind = Verdict::Kind::kFailed;
    mine.fault = failure.fault;
    mine.text = failure.text;
  }
  for (const std::string& packed : world.all().all_gather(pack(mine))) {
    const Verdict verdict = unpack(packed);
    if (verdict.kind != Verdict::Kind::kWell) {
      raise(verdict);
    }
  }
  return cluster;
}

bool nccl_is_usable() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace apo::comm
