#pragma once

/// @file
/// ClusterCommunicator over MPI. Also the host half of the NCCL back end. Private to comm.

#include "cluster_impl.hpp"

namespace apo::comm {

class MpiCluster : public ClusterCommunicator::Impl {
 public:
  /// @param comm  MPI_COMM_NULL: member of none
  explicit MpiCluster(UniqueComm comm);

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  [[nodiscard]] Backend backend() const noexcept override { return Backend::kMpi; }
  [[nodiscard]] MPI_Comm mpi_comm() const noexcept override { return comm_.get(); }
  [[nodiscard]] std::int64_t bytes_moved() const noexcept override { return bytes_moved_; }
  void all_reduce(std::span<double> values, Reduction op) override;
  void all_reduce(std::span<float> values, Reduction op) override;
  void all_reduce(std::span<std::int64_t> values, Reduction op) override;
  void all_gather(std::span<const double> in, std::span<double> out) override;
  std::vector<std::string> all_gather(const std::string& bytes) override;
  void broadcast(std::span<double> values, int root) override;
  void broadcast(std::span<float> values, int root) override;
  void broadcast(std::string& bytes, int root) override;
  void barrier() override;
  void agree_or_throw(std::string_view local_failure, Fault fault) override;
  void close() override;

 protected:
  void require_member() const;
  void require_root(int root) const;
  void count_bytes(std::size_t bytes) noexcept { bytes_moved_ += static_cast<std::int64_t>(bytes); }

 private:
  template <class T>
  void reduce_in_chunks(std::span<T> values, MPI_Datatype type, Reduction op);
  void broadcast_bytes(void* data, std::size_t num_bytes, int root);

  UniqueComm comm_;
  int rank_ = -1;
  int size_ = 0;
  std::int64_t bytes_moved_ = 0;
};

}  // namespace apo::comm
