#pragma once

/// @file
/// What a back end of ClusterCommunicator implements. Private to comm.

#include <memory>
#include <string>

#include "mpi_support.hpp"

#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/error.hpp"

namespace apo::comm {

/// What went wrong on this rank alone, kept until all ranks have agreed on it.
struct Failure {
  std::string text;  ///< empty: nothing
  Fault fault = Fault::kInternal;

  [[nodiscard]] bool any() const noexcept { return !text.empty(); }

  /// Runs `work`; an exception becomes text and fault.
  template <class Work>
  void capture(Work&& work) {
    try {
      work();
    } catch (const Error& error) {
      set(error.what(), error.fault());
    } catch (const std::exception& error) {
      set(error.what(), Fault::kInternal);
    } catch (...) {
      set("an exception of unknown type", Fault::kInternal);
    }
  }

 private:
  void set(const char* what, Fault fault_of_error) {
    text = what;
    fault = fault_of_error;
    if (text.empty()) {
      text = "an error without a message";
    }
  }
};

/// The same contracts as the members of ClusterCommunicator of the same names.
class ClusterCommunicator::Impl {
 public:
  virtual ~Impl() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  [[nodiscard]] virtual Backend backend() const noexcept = 0;
  [[nodiscard]] virtual MPI_Comm mpi_comm() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t bytes_moved() const noexcept = 0;
  virtual void all_reduce(std::span<double> values, Reduction op) = 0;
  virtual void all_reduce(std::span<float> values, Reduction op) = 0;
  virtual void all_reduce(std::span<std::int64_t> values, Reduction op) = 0;
  virtual void all_gather(std::span<const double> in, std::span<double> out) = 0;
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  virtual void broadcast(std::span<double> values, int root) = 0;
  virtual void broadcast(std::span<float> values, int root) = 0;
  virtual void broadcast(std::string& bytes, int root) = 0;
  virtual void barrier() = 0;
  virtual void agree_or_throw(std::string_view local_failure, Fault fault) = 0;
  virtual void close() = 0;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

/// src/comm/nccl_cluster.cpp, or nccl_absent.cpp which throws Error(kDevice). Collective over the
/// world; `team` is MPI_COMM_NULL on ranks that are members of no team.
std::unique_ptr<ClusterCommunicator::Impl> make_nccl_cluster(World& world, UniqueComm team);

/// NCCL is built in and this process sees a usable device.
[[nodiscard]] bool nccl_is_usable() noexcept;

}  // namespace apo::comm
