#include "cluster_impl.hpp"
#include "device_of_host.hpp"

namespace apo::comm {

std::unique_ptr<ClusterCommunicator::Impl> make_nccl_cluster(World& /*world*/,
                                                             UniqueComm /*team*/) {
  throw Error(Fault::kDevice,
              "runtime.collectives = nccl: this program was built without NCCL. Configure with "
              "-DAPO_WITH_CUDA=ON (and -DAPO_VENV=<environment with torch 2.14.1>), or set "
              "runtime.collectives = mpi");
}

bool nccl_is_usable() noexcept { return false; }

HostDevice device_of_host(int /*local_rank*/) {
  return {{}, "this program was built without CUDA (-DAPO_WITH_CUDA=ON)"};
}

std::string accelerator_versions() { return "none"; }

}  // namespace apo::comm
