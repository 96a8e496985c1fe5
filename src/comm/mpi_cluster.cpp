#include "mpi_cluster.hpp"

#include <algorithm>
#include <numeric>

#include "activity_state.hpp"
#include <fmt/format.h>

namespace apo::comm {
namespace {

MPI_Op mpi_op(Reduction op) {
  switch (op) {
    case Reduction::kSum:
      return MPI_SUM;
    case Reduction::kMax:
      return MPI_MAX;
    case Reduction::kMin:
      return MPI_MIN;
  }
  throw Error(Fault::kInternal, "unknown reduction");
}

}  // namespace

MpiCluster::MpiCluster(UniqueComm comm) : comm_(std::move(comm)) {
  if (comm_.valid()) {
    mpi_check(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size");
  }
}

void MpiCluster::require_member() const {
  expects(comm_.valid(), size_ == 0 ? "collective call by a rank that is a member of no team"
                                    : "collective call on a closed communicator");
}

void MpiCluster::require_root(int root) const {
  expects(root >= 0 && root < size_,
          fmt::format("root {} of a broadcast among {} ranks", root, size_));
}

template <class T>
void MpiCluster::reduce_in_chunks(std::span<T> values, MPI_Datatype type, Reduction op) {
  require_member();
  const MPI_Op operation = mpi_op(op);
  for (std::size_t begin = 0; begin < values.size(); begin += kMaxCount) {
    const auto slice = values.subspan(begin, std::min(kMaxCount, values.size() - begin));
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, slice.data(), static_cast<int>(slice.size()), type,
                            operation, comm_.get()),
              "MPI_Allreduce");
  }
  count_bytes(values.size_bytes());
}

void MpiCluster::all_reduce(std::span<double> values, Reduction op) {
  reduce_in_chunks(values, MPI_DOUBLE, op);
}
void MpiCluster::all_reduce(std::span<float> values, Reduction op) {
  reduce_in_chunks(values, MPI_FLOAT, op);
}
void MpiCluster::all_reduce(std::span<std::int64_t> values, Reduction op) {
  reduce_in_chunks(values, MPI_INT64_T, op);
}

void MpiCluster::all_gather(std::span<const double> in, std::span<double> out) {
  require_member();
  expects(out.size() == in.size() * static_cast<std::size_t>(size_),
          fmt::format("all_gather: output of {} numbers for {} ranks with {} each", out.size(),
                      size_, in.size()));
  expects(out.size() <= kMaxCount, "all_gather of more than 2^30 numbers");
  const int count = static_cast<int>(in.size());
  mpi_check(MPI_Allgather(in.data(), count, MPI_DOUBLE, out.data(), count, MPI_DOUBLE, comm_.get()),
            "MPI_Allgather");
  count_bytes(out.size_bytes());
}

std::vector<std::string> MpiCluster::all_gather(const std::string& bytes) {
  require_member();
  const auto num_ranks = static_cast<std::size_t>(size_);
  const auto mine = static_cast<std::int64_t>(bytes.size());
  std::vector<std::int64_t> lengths(num_ranks);
  mpi_check(MPI_Allgather(&mine, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm_.get()),
            "MPI_Allgather");
  const auto total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  std::vector<std::string> out(num_ranks);
  if (static_cast<std::size_t>(total) > kMaxCount) {  // offsets would not fit into an int
    for (std::size_t r = 0; r < num_ranks; ++r) {
      out[r] = static_cast<int>(r) == rank_ ? bytes : std::string();
      out[r].resize(static_cast<std::size_t>(lengths[r]));
      broadcast_bytes(out[r].data(), out[r].size(), static_cast<int>(r));
    }
  } else {
    std::vector<int> counts(num_ranks);
    std::vector<int> offsets(num_ranks);
    int end = 0;
    for (std::size_t r = 0; r < num_ranks; ++r) {
      counts[r] = static_cast<int>(lengths[r]);
      offsets[r] = end;
      end += counts[r];
    }
    std::string joined(static_cast<std::size_t>(total), '\0');
    mpi_check(MPI_Allgatherv(bytes.data(), static_cast<int>(mine), MPI_BYTE, joined.data(),
                             counts.data(), offsets.data(), MPI_BYTE, comm_.get()),
              "MPI_Allgatherv");
    for (std::size_t r = 0; r < num_ranks; ++r) {
      out[r] =
          joined.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(counts[r]));
    }
  }
  count_bytes(static_cast<std::size_t>(total));
  return out;
}

void MpiCluster::broadcast_bytes(void* data, std::size_t num_bytes, int root) {
  for (std::size_t begin = 0; begin < num_bytes; begin += kMaxCount) {
    const std::size_t count = std::min(kMaxCount, num_bytes - begin);
    mpi_check(MPI_Bcast(static_cast<char*>(data) + begin, static_cast<int>(count), MPI_BYTE, root,
                        comm_.get()),
              "MPI_Bcast");
  }
}

void MpiCluster::broadcast(std::span<double> values, int root) {
  require_member();
  require_root(root);
  broadcast_bytes(values.data(), values.size_bytes(), root);
  count_bytes(values.size_bytes());
}

void MpiCluster::broadcast(std::span<float> values, int root) {
  require_member();
  require_root(root);
  broadcast_bytes(values.data(), values.size_bytes(), root);
  count_bytes(values.size_bytes());
}

void MpiCluster::broadcast(std::string& bytes, int root) {
  require_member();
  require_root(root);
  auto length = static_cast<std::int64_t>(bytes.size());
  mpi_check(MPI_Bcast(&length, 1, MPI_INT64_T, root, comm_.get()), "MPI_Bcast");
  bytes.resize(static_cast<std::size_t>(length));
  broadcast_bytes(bytes.data(), bytes.size(), root);
  count_bytes(bytes.size());
}

void MpiCluster::barrier() {
  require_member();
  mpi_check(MPI_Barrier(comm_.get()), "MPI_Barrier");
}

void MpiCluster::agree_or_throw(std::string_view local_failure, Fault fault) {
  require_member();
  int failing = local_failure.empty() ? size_ : rank_;
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &failing, 1, MPI_INT, MPI_MIN, comm_.get()),
            "MPI_Allreduce");
  if (failing == size_) {
    return;
  }
  int fault_number = static_cast<int>(fault);
  mpi_check(MPI_Bcast(&fault_number, 1, MPI_INT, failing, comm_.get()), "MPI_Bcast");
  // A failure in the caller's part of a collective comes here without its activity.
  std::string text;
  if (!local_failure.empty()) {
    text = at_activity_of_this_rank(std::string(local_failure));
  }
  if (size_ > 1) {
    text = fmt::format("[rank {} of {}, {}] {}", rank_, size_, host_name(), text);
    broadcast(text, failing);
  }
  failure_is_described();
  throw Error(static_cast<Fault>(fault_number), text);
}

void MpiCluster::close() { comm_.free(); }

}  // namespace apo::comm
