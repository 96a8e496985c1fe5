#include "apo/comm/cluster_communicator.hpp"

#include <numeric>
#include <utility>

#include "activity_state.hpp"
#include "mpi_cluster.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/comm/world.hpp"

namespace apo::comm {
namespace {

/// "team 2 (ranks 3-5)": numbers in the world, which the program's messages count in.
std::string team_name(int color, MPI_Comm team) {
  if (team == MPI_COMM_NULL) {
    return "no team";
  }
  MPI_Group world_group = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  mpi_check(MPI_Comm_group(MPI_COMM_WORLD, &world_group), "MPI_Comm_group");
  mpi_check(MPI_Comm_group(team, &group), "MPI_Comm_group");
  int size = 0;
  mpi_check(MPI_Comm_size(team, &size), "MPI_Comm_size");
  std::vector<int> local(static_cast<std::size_t>(size));
  std::vector<int> ranks(local.size());
  std::iota(local.begin(), local.end(), 0);
  mpi_check(MPI_Group_translate_ranks(group, size, local.data(), world_group, ranks.data()),
            "MPI_Group_translate_ranks");
  mpi_check(MPI_Group_free(&group), "MPI_Group_free");
  mpi_check(MPI_Group_free(&world_group), "MPI_Group_free");
  if (size == 1) {
    return fmt::format("team {} (rank {})", color, ranks.front());
  }
  if (ranks.back() - ranks.front() == size - 1) {  // ascending: the split is keyed by the rank
    return fmt::format("team {} (ranks {}-{})", color, ranks.front(), ranks.back());
  }
  constexpr int kMost = 8;
  const std::string more = size > kMost ? fmt::format(" and {} more", size - kMost) : "";
  ranks.resize(static_cast<std::size_t>(std::min(size, kMost)));
  return fmt::format("team {} (ranks {}{})", color, fmt::join(ranks, ", "), more);
}

}  // namespace

bool backend_is_usable(Backend backend) noexcept {
  return backend == Backend::kMpi || nccl_is_usable();
}

ClusterCommunicator::ClusterCommunicator(std::unique_ptr<Impl> impl, std::string team) noexcept
    : impl_(std::move(impl)), team_(std::move(team)) {}
ClusterCommunicator::ClusterCommunicator(ClusterCommunicator&& other) noexcept = default;
ClusterCommunicator& ClusterCommunicator::operator=(ClusterCommunicator&& other) noexcept = default;
ClusterCommunicator::~ClusterCommunicator() = default;

template <class Call>
decltype(auto) ClusterCommunicator::collective(const char* name, const Call& call) {
  const InCollective scope(name, ++num_collectives_, team_);
  return call();
}

ClusterCommunicator ClusterCommunicator::split(World& world, int color, Backend backend) {
  ClusterCommunicator& all = world.all();
  return all.collective("split", [&] {
    MPI_Comm team = MPI_COMM_NULL;
    mpi_check(MPI_Comm_split(all.impl().mpi_comm(), color < 0 ? MPI_UNDEFINED : color, world.rank(),
                             &team),
              "MPI_Comm_split");
    UniqueComm owner(team);
    std::string name = team_name(color, owner.get());
    if (backend == Backend::kNccl) {
      return ClusterCommunicator(make_nccl_cluster(world, std::move(owner)), std::move(name));
    }
    return ClusterCommunicator(std::make_unique<MpiCluster>(std::move(owner)), std::move(name));
  });
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
  collective("all_reduce", [&] { impl().all_reduce(values, op); });
}
void ClusterCommunicator::all_reduce(std::span<float> values, Reduction op) {
  collective("all_reduce", [&] { impl().all_reduce(values, op); });
}
void ClusterCommunicator::all_reduce(std::span<std::int64_t> values, Reduction op) {
  collective("all_reduce", [&] { impl().all_reduce(values, op); });
}
void ClusterCommunicator::all_gather(std::span<const double> in, std::span<double> out) {
  collective("all_gather", [&] { impl().all_gather(in, out); });
}
std::vector<std::string> ClusterCommunicator::all_gather(const std::string& bytes) {
  return collective("all_gather", [&] { return impl().all_gather(bytes); });
}
void ClusterCommunicator::broadcast(std::span<double> values, int root) {
  collective("broadcast", [&] { impl().broadcast(values, root); });
}
void ClusterCommunicator::broadcast(std::span<float> values, int root) {
  collective("broadcast", [&] { impl().broadcast(values, root); });
}
void ClusterCommunicator::broadcast(std::string& bytes, int root) {
  collective("broadcast", [&] { impl().broadcast(bytes, root); });
}
void ClusterCommunicator::barrier() {
  collective("barrier", [&] { impl().barrier(); });
}

void ClusterCommunicator::agree_or_throw(std::string_view local_failure, int fault) {
  const std::string text =
      local_failure.empty() ? std::string() : at_activity_of_this_rank(std::string(local_failure));
  collective("agreement", [&] { impl().agree_or_throw(text, static_cast<Fault>(fault)); });
}

void ClusterCommunicator::run_and_agree(const std::function<void()>& work) {
  Failure failure;
  {
    const OutOfCollective own_work;
    failure.capture(work);
  }
  agree_or_throw(failure.text, static_cast<int>(failure.fault));
}

void ClusterCommunicator::close() {
  if (impl_) {
    collective("close", [&] { impl_->close(); });
  }
}

}  // namespace apo::comm
