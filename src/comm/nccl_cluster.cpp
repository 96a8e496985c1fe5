#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "mpi_cluster.hpp"
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include "apo/comm/world.hpp"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 14, 3)
#error "NCCL 2.14.3 or later is needed: ncclCommInitRankConfig"
#endif

namespace apo::comm {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// A collective, or the creation of a communicator, that takes longer is given up. It has to exceed
/// the time by which ranks of one team may differ in arriving (a checkpoint, an evaluation).
constexpr std::chrono::seconds kDeadline{600};
/// Host buffers pass through the device in pieces of this many bytes.
constexpr std::size_t kStageBytes = std::size_t{64} << 20;

std::string nccl_versions() {
  int version = 0;
  ncclGetVersion(&version);
  return fmt::format("NCCL {} at run time, {} at build time", version, NCCL_VERSION_CODE);
}

void cuda_check(cudaError_t code, const char* call, Where where = Where::here()) {
  if (code != cudaSuccess) {
    throw BackendError(call, code, cudaGetErrorString(code), where);
  }
}

/// @param comm  may be nullptr: then the last error of the process
void nccl_check(ncclResult_t code, const char* call, ncclComm_t comm, Where where = Where::here()) {
  if (code != ncclSuccess && code != ncclInProgress) {
    const char* detail = ncclGetLastError(comm);
    throw BackendError(
        call, code,
        fmt::format("{} ({}; {})", ncclGetErrorString(code),
                    detail != nullptr && *detail != '\0' ? detail : "no detail", nccl_versions()),
        where);
  }
}

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

/// The device of this rank, by its place on the host, as "host uuid" for the search for duplicates.
struct DeviceChoice {
  int device = -1;
  std::string identity;
};

DeviceChoice choose_device(const World& world) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    throw Error(Fault::kDevice,
                fmt::format("runtime.collectives = nccl: no usable CUDA device on host {}: {} "
                            "({}). Set runtime.collectives = mpi to run without",
                            world.host(),
                            code != cudaSuccess ? cudaGetErrorString(code) : "none is visible",
                            nccl_versions()));
  }
  DeviceChoice choice;
  choice.device = world.local_rank() % count;
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, choice.device), "cudaGetDeviceProperties");
  choice.identity = world.host() + " GPU-";
  for (const char byte : properties.uuid.bytes) {
    choice.identity += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return choice;
}

/// NCCL would refuse too, but later, on some ranks only, and without naming them.
void refuse_shared_devices(World& world, const std::string& identity) {
  const std::vector<std::string> identities = world.all().all_gather(identity);
  std::map<std::string, std::size_t> first;
  for (std::size_t r = 0; r < identities.size(); ++r) {
    if (identities[r].empty()) {
      continue;  // a member of no team
    }
    const auto [entry, is_new] = first.emplace(identities[r], r);
    if (!is_new) {  // every rank sees the same list, so all of them throw the same error
      throw Error(
          Fault::kDevice,
          fmt::format("ranks {} and {} share one GPU ({}), which NCCL does not allow: start "
                      "at most one rank per GPU, check CUDA_VISIBLE_DEVICES, or set "
                      "runtime.collectives = mpi",
                      entry->second, r, identities[r]));
    }
  }
}

class NcclCluster final : public MpiCluster {
 public:
  NcclCluster(UniqueComm team, int device) : MpiCluster(std::move(team)), device_(device) {}

  ~NcclCluster() override {
    if (nccl_ != nullptr) {
      ncclCommAbort(nccl_);  // never finalize here: it waits for the other ranks
    }
    release_device();
  }

  [[nodiscard]] Backend backend() const noexcept override { return Backend::kNccl; }

  /// Collective over the team.
  void connect() {
    ncclUniqueId id{};
    Failure failure;
    failure.capture([&] {
      cuda_check(cudaSetDevice(device_), "cudaSetDevice");
      cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
      if (rank() == 0) {
        nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
      }
    });
    agree_or_throw(failure.text, failure.fault);
    mpi_check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, mpi_comm()), "MPI_Bcast");
    // Some MPIs make no progress on the broadcast while other ranks already wait inside NCCL.
    barrier();
    failure.capture([&] {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      nccl_check(ncclCommInitRankConfig(&nccl_, size(), id, rank(), &config),
                 "ncclCommInitRankConfig", nccl_);
      wait_for_host("ncclCommInitRankConfig");
    });
    agree_or_throw(failure.text, failure.fault);
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
      nccl_check(ncclCommFinalize(nccl_), "ncclCommFinalize", nccl_);
      wait_for_host("ncclCommFinalize");
      ncclComm_t comm = std::exchange(nccl_, nullptr);
      nccl_check(ncclCommDestroy(comm), "ncclCommDestroy", nullptr);
    }
    release_device();
    MpiCluster::close();
  }

 private:
  void release_device() noexcept {
    if (stage_ != nullptr) {
      cudaFree(std::exchange(stage_, nullptr));
      stage_bytes_ = 0;
    }
    if (stream_ != nullptr) {
      cudaStreamDestroy(std::exchange(stream_, nullptr));
    }
  }

  [[noreturn]] void give_up(const char* call, ncclResult_t code, std::string_view text) {
    // Kernels may wait for a peer that will never come: abort first, then report.
    const std::string detail = fmt::format("{} (rank {} of {}, after {} collectives; {})", text,
                                           rank(), size(), sequence_, nccl_versions());
    ncclCommAbort(std::exchange(nccl_, nullptr));
    throw BackendError(call, code, detail);
  }

  /// Looks for an asynchronous error; true while the host side is still in progress.
  bool in_progress(const char* call) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t code = ncclCommGetAsyncError(nccl_, &state);
    const ncclResult_t worst = code != ncclSuccess ? code : state;
    if (worst != ncclSuccess && worst != ncclInProgress) {
      const char* detail = ncclGetLastError(nccl_);
      give_up(call, worst,
              fmt::format("{} ({})", ncclGetErrorString(worst),
                          detail != nullptr ? detail : "no detail"));
    }
    return worst == ncclInProgress;
  }

  void pause_or_give_up(const char* call, SteadyClock::time_point deadline) {
    if (SteadyClock::now() > deadline) {
      give_up(call, ncclInternalError, fmt::format("no answer for {} s", kDeadline.count()));
    }
    int flag = 0;  // keeps MPI moving for ranks of this process' peers that are still in MPI
    mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi_comm(), &flag, MPI_STATUS_IGNORE),
              "MPI_Iprobe");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

  void wait_for_host(const char* call) {
    const auto deadline = SteadyClock::now() + kDeadline;
    while (in_progress(call)) {
      pause_or_give_up(call, deadline);
    }
  }

  void wait_for_stream(const char* call) {
    const auto deadline = SteadyClock::now() + kDeadline;
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) {
        return;
      }
      if (state != cudaErrorNotReady) {
        cuda_check(state, call);
      }
      in_progress(call);
      pause_or_give_up(call, deadline);
    }
  }

  void require_open() const {
    require_member();
    expects(nccl_ != nullptr, "collective call on an NCCL communicator that was given up");
  }

  /// Copies `values` to the device piece by piece, runs `launch` on each piece, copies it back.
  template <class T, class Launch>
  void staged(std::span<T> values, const char* call, const Launch& launch) {
    require_open();
    cuda_check(cudaSetDevice(device_), "cudaSetDevice");
    const std::size_t piece = kStageBytes / sizeof(T);
    const std::size_t wanted = std::min(piece, values.size()) * sizeof(T);
    if (wanted > stage_bytes_) {
      if (stage_ != nullptr) {
        cuda_check(cudaFree(std::exchange(stage_, nullptr)), "cudaFree");
        stage_bytes_ = 0;
      }
      cuda_check(cudaMalloc(&stage_, wanted), "cudaMalloc");
      stage_bytes_ = wanted;
    }
    for (std::size_t begin = 0; begin < values.size(); begin += piece) {
      const auto slice = values.subspan(begin, std::min(piece, values.size() - begin));
      cuda_check(cudaMemcpyAsync(stage_, slice.data(), slice.size_bytes(), cudaMemcpyHostToDevice,
                                 stream_),
                 "cudaMemcpyAsync");
      nccl_check(launch(stage_, slice.size()), call, nccl_);
      wait_for_host(call);
      // Wait on the stream before the copy back: a copy to pageable memory blocks without a
      // deadline, and a peer may be gone.
      wait_for_stream(call);
      cuda_check(cudaMemcpyAsync(slice.data(), stage_, slice.size_bytes(), cudaMemcpyDeviceToHost,
                                 stream_),
                 "cudaMemcpyAsync");
      wait_for_stream("cudaMemcpyAsync");
      ++sequence_;
    }
    count_bytes(values.size_bytes());
  }

  template <class T>
  void staged_all_reduce(std::span<T> values, ncclDataType_t type, Reduction op) {
    staged(values, "ncclAllReduce", [&](void* data, std::size_t count) {
      return ncclAllReduce(data, data, count, type, nccl_op(op), nccl_, stream_);
    });
  }

  template <class T>
  void staged_broadcast(std::span<T> values, int root) {
    require_root(root);
    staged(values, "ncclBroadcast", [&](void* data, std::size_t count) {
      return ncclBroadcast(data, data, count * sizeof(T), ncclUint8, root, nccl_, stream_);
    });
  }

  int device_;
  ncclComm_t nccl_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* stage_ = nullptr;
  std::size_t stage_bytes_ = 0;
  std::int64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<ClusterCommunicator::Impl> make_nccl_cluster(World& world, UniqueComm team) {
  const bool is_member = team.valid();
  DeviceChoice choice;
  world.all().run_and_agree([&] {
    if (is_member) {
      choice = choose_device(world);
    }
  });
  refuse_shared_devices(world, choice.identity);
  auto cluster = std::make_unique<NcclCluster>(std::move(team), choice.device);
  world.all().run_and_agree([&] {
    if (is_member) {
      cluster->connect();
    }
  });
  return cluster;
}

bool nccl_is_usable() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace apo::comm
