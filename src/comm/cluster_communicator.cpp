#include "apo/comm/cluster_communicator.hpp"

#include <utility>

#include "mpi_cluster.hpp"

#include "apo/comm/world.hpp"

namespace apo::comm {

bool backend_is_usable(Backend backend) noexcept {
  return backend == Backend::kMpi || nccl_is_usable();
}

ClusterCommunicator::ClusterCommunicator(std::unique_ptr<Impl> impl) noexcept
    : impl_(std::move(impl)) {}
ClusterCommunicator::ClusterCommunicator(ClusterCommunicator&& other) noexcept = default;
ClusterCommunicator& ClusterCommunicator::operator=(ClusterCommunicator&& other) noexcept = default;
ClusterCommunicator::~ClusterCommunicator() = default;

ClusterCommunicator ClusterCommunicator::split(World& world, int color, Backend backend) {
  MPI_Comm team = MPI_COMM_NULL;
  mpi_check(MPI_Comm_split(world.all().impl().mpi_comm(), color < 0 ? MPI_UNDEFINED : color,
                           world.rank(), &team),
            "MPI_Comm_split");
  UniqueComm owner(team);
  if (backend == Backend::kNccl) {
    return ClusterCommunicator(make_nccl_cluster(world, std::move(owner)));
  }
  return ClusterCommunicator(std::make_unique<MpiCluster>(std::move(owner)));
}

ClusterCommunicator::Impl& ClusterCommunicator::impl() const {
  expects(impl_ != nullptr, "communicator was moved from");
  return *impl_;
}

int ClusterCommunicator::rank() const noexcept { return impl_ ? impl_->rank() : -1; }
int ClusterCommunicator::size() const noexcept { return impl_ ? impl_->size() : 0; }
Backend ClusterCommunicator::backend() const noexcept {
  return impl_ ? impl_->backend() : Backend::kMpi;
}
std::int64_t ClusterCommunicator::bytes_moved() const noexcept {
  return impl_ ? impl_->bytes_moved() : 0;
}

void ClusterCommunicator::all_reduce(std::span<double> values, Reduction op) {
  impl().all_reduce(values, op);
}
void ClusterCommunicator::all_reduce(std::span<float> values, Reduction op) {
  impl().all_reduce(values, op);
}
void ClusterCommunicator::all_reduce(std::span<std::int64_t> values, Reduction op) {
  impl().all_reduce(values, op);
}
void ClusterCommunicator::ordered_sum(
    std::span<double> partial,
    const std::function<void(std::size_t begin, std::span<double> slice)>& add) {
  impl().ordered_sum(partial, add);
}
void ClusterCommunicator::all_gather(std::span<const double> in, std::span<double> out) {
  impl().all_gather(in, out);
}
std::vector<std::string> ClusterCommunicator::all_gather(const std::string& bytes) {
  return impl().all_gather(bytes);
}
void ClusterCommunicator::broadcast(std::span<double> values, int root) {
  impl().broadcast(values, root);
}
void ClusterCommunicator::broadcast(std::span<float> values, int root) {
  impl().broadcast(values, root);
}
void ClusterCommunicator::broadcast(std::string& bytes, int root) { impl().broadcast(bytes, root); }
void ClusterCommunicator::barrier() { impl().barrier(); }

void ClusterCommunicator::agree_or_throw(std::string_view local_failure, int fault) {
  impl().agree_or_throw(local_failure, static_cast<Fault>(fault));
}

void ClusterCommunicator::run_and_agree(const std::function<void()>& work) {
  Failure failure;
  failure.capture(work);
  impl().agree_or_throw(failure.text, failure.fault);
}

void ClusterCommunicator::close() {
  if (impl_) {
    impl_->close();
  }
}

}  // namespace apo::comm
