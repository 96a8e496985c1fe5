#include "nccl_device.hpp"

#include <map>
#include <string>
#include <vector>

#include "device_of_host.hpp"
#include "nccl_verdict.hpp"
#include <fmt/format.h>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 14, 3)
#error "NCCL 2.14.3 or later is needed: ncclCommInitRankConfig"
#endif

namespace apo::comm {
namespace {

/// What the other ranks have to know of one member of a team.
struct Identity {
  int version = 0;     ///< of the NCCL library
  std::string device;  ///< "host GPU-<uuid>"
};

int library_version() {
  int version = 0;
  nccl_check(ncclGetVersion(&version), "ncclGetVersion", nullptr);
  return version;
}

struct DeviceCount {
  int count = 0;
  std::string why_none;  ///< when it is 0
};

DeviceCount count_devices() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    return {0, cudaGetErrorString(code)};
  }
  return {count, count == 0 ? "none is visible" : ""};
}

int device_of_rank(const World& world) {
  const DeviceCount devices = count_devices();
  if (devices.count == 0) {
    throw Error(Fault::kDevice,
                fmt::format("runtime.collectives = nccl: no usable CUDA device on host {}: {} "
                            "({}). Set runtime.collectives = mpi to run without",
                            world.host(), devices.why_none, nccl_versions()));
  }
  return world.local_rank() % devices.count;
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties;
}

std::string uuid_of(const cudaDeviceProp& properties) {
  std::string uuid = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return uuid;
}

void check_versions(const std::map<std::size_t, Identity>& members) {
  const auto& [first_rank, first] = *members.begin();
  for (const auto& [rank, identity] : members) {
    if (identity.version != first.version) {
      throw Error(Fault::kBackend,
                  fmt::format("rank {} runs with NCCL {} and rank {} with NCCL {}: all ranks need "
                              "the same libnccl.so, check LD_LIBRARY_PATH on the hosts",
                              first_rank, first.version, rank, identity.version));
    }
  }
  if (first.version < NCCL_VERSION_CODE) {  // its interface grows only
    throw Error(Fault::kBackend,
                fmt::format("the process runs with NCCL {} but was built for NCCL {}: an older "
                            "libnccl.so was found first, check LD_LIBRARY_PATH",
                            first.version, NCCL_VERSION_CODE));
  }
}

void refuse_shared_devices(const std::map<std::size_t, Identity>& members) {
  std::map<std::string, std::size_t> owner;
  for (const auto& [rank, identity] : members) {
    const auto [entry, is_new] = owner.emplace(identity.device, rank);
    if (!is_new) {
      throw Error(
          Fault::kDevice,
          fmt::format("ranks {} and {} share one GPU ({}), which NCCL does not allow: start "
                      "at most one rank per GPU, check CUDA_VISIBLE_DEVICES, or set "
                      "runtime.collectives = mpi",
                      entry->second, rank, identity.device));
    }
  }
}

}  // namespace

std::string nccl_versions() {
  int version = 0;
  ncclGetVersion(&version);
  return fmt::format("NCCL {} at run time, {} at build time", version, NCCL_VERSION_CODE);
}

void cuda_check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) {
    throw CallError(call, code, cudaGetErrorString(code));
  }
}

void nccl_check(ncclResult_t code, const char* call, ncclComm_t comm) {
  if (code != ncclSuccess && code != ncclInProgress) {
    const char* detail = ncclGetLastError(comm);
    throw CallError(
        call, code,
        fmt::format("{} ({}; {})", ncclGetErrorString(code),
                    detail != nullptr && *detail != '\0' ? detail : "no detail", nccl_versions()));
  }
}

int choose_device(World& world, bool is_member) {
  int device = -1;
  std::string mine;
  world.all().run_and_agree([&] {
    if (!is_member) {
      return;
    }
    try {
      device = device_of_rank(world);
      mine =
          fmt::format("{} {} {}", library_version(), world.host(), uuid_of(properties_of(device)));
    } catch (const CallError& error) {
      raise(error.verdict());
    }
  });
  // All ranks read the same list, so all of them throw the same error.
  const std::vector<std::string> all = world.all().all_gather(mine);
  std::map<std::size_t, Identity> members;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (const std::size_t space = all[r].find(' '); space != std::string::npos) {
      members[r] = {.version = std::stoi(all[r].substr(0, space)),
                    .device = all[r].substr(space + 1)};
    }
  }
  if (!members.empty()) {
    check_versions(members);
    refuse_shared_devices(members);
  }
  return device;
}

HostDevice device_of_host(int local_rank) {
  const DeviceCount devices = count_devices();
  if (devices.count == 0) {
    return {{}, devices.why_none};
  }
  const int number = local_rank % devices.count;
  try {
    const cudaDeviceProp properties = properties_of(number);
    return {RankDevice{.name = fmt::format("cuda:{}", number),
                       .model = fmt::format("{} {}", properties.name, uuid_of(properties)),
                       .memory = static_cast<double>(properties.totalGlobalMem)},
            ""};
  } catch (const CallError& error) {
    return {{}, error.what()};
  }
}

std::string accelerator_versions() {
  return fmt::format("{}; CUDA {}", nccl_versions(), CUDART_VERSION);
}

}  // namespace apo::comm
