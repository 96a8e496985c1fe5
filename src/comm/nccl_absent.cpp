#include "cluster_impl.hpp"

namespace apo::comm {

std::unique_ptr<ClusterCommunicator::Impl> make_nccl_cluster(World& /*world*/,
                                                             UniqueComm /*team*/) {
  throw Error(Fault::kDevice,
              "runtime.collectives = nccl: this program was built without NCCL. Configure with "
              "-DAPO_WITH_CUDA=ON (and -DAPO_VENV=<environment with torch 2.14.1>), or set "
              "runtime.collectives = mpi");
}

bool nccl_is_usable() noexcept { return false; }

}  // namespace apo::comm
