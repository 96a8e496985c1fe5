#pragma once

/// @file
/// The ranks that train the clients of one preference cluster (a team), as one communicator.
///
/// Room rule: comm may include core only. No mpi.h, nccl.h or torch in this header.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace apo::comm {

class World;

/// Which library moves the bytes. Chosen once, from the configuration; callers never ask #ifdef.
enum class Backend { kMpi, kNccl };

enum class Reduction { kSum, kMax, kMin };

/// Collective operations inside one team.
///
/// Every member that is not a noexcept accessor is *collective*: all size() ranks call it, in the
/// same order, with the same count. A rank with nothing to give still calls, with zeros.
/// Buffers are host memory. The NCCL back end moves all_reduce and broadcast of numbers through the
/// device; everything else (gathers, strings, agreement) goes over MPI with both.
///
/// Lifetime: must end before its World. close() on the success path; the destructor never
/// communicates: it aborts an open NCCL handle and frees an MPI one.
class ClusterCommunicator {
 public:
  /// Splits the world. Collective over the whole world.
  ///
  /// @param color  this rank's team, >= 0; negative: member of none, size() == 0
  /// @throws Error(kDevice)  kNccl in a build without it, or two ranks on one GPU
  /// @throws BackendError    MPI_Comm_split or ncclCommInitRank failed
  static ClusterCommunicator split(World& world, int color, Backend backend);

  ClusterCommunicator(ClusterCommunicator&& other) noexcept;
  ClusterCommunicator& operator=(ClusterCommunicator&& other) noexcept;
  ClusterCommunicator(const ClusterCommunicator&) = delete;
  ClusterCommunicator& operator=(const ClusterCommunicator&) = delete;
  ~ClusterCommunicator();

  [[nodiscard]] int rank() const noexcept;  ///< 0 .. size() - 1; -1 when not a member
  [[nodiscard]] int size() const noexcept;  ///< number of ranks; 0 when not a member
  [[nodiscard]] Backend backend() const noexcept;

  /// In place, elementwise: x_r <- op_{r'} x_{r'}. Floating-point sums: the last bits depend on
  /// the number of ranks.
  void all_reduce(std::span<double> values, Reduction op);
  void all_reduce(std::span<float> values, Reduction op);
  void all_reduce(std::span<std::int64_t> values, Reduction op);

  /// out[r * in.size() + i] = in_r[i].
  void all_gather(std::span<const double> in, std::span<double> out);
  /// Byte strings of any length, one per rank, in rank order.
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& bytes);

  void broadcast(std::span<double> values, int root);
  void broadcast(std::span<float> values, int root);
  void broadcast(std::string& bytes, int root);  ///< sizes may differ on entry
  void barrier();

  /// The ranks agree on whether anybody failed; if so all of them throw an Error with the lowest
  /// failing rank's fault, number and text. Ends every phase that can fail on one rank alone.
  ///
  /// @param local_failure  empty when this rank is well
  /// @param fault          static_cast<int>(Fault) of this rank's failure
  void agree_or_throw(std::string_view local_failure, int fault);

  /// Runs `work` on this rank and then agrees: an Error (or any exception) thrown by it on any
  /// rank is thrown on all.
  void run_and_agree(const std::function<void()>& work);

  /// Payload bytes since construction: the size of each buffer, once per collective, whatever the
  /// library does with it. The same on all ranks, and for any number of ranks when callers' buffers
  /// are.
  [[nodiscard]] std::int64_t bytes_moved() const noexcept;

  void close();  ///< finishes outstanding work, then frees the handles, together. Idempotent.

  class Impl;  // src/comm/mpi_cluster.cpp, src/comm/nccl_cluster.cpp, src/comm/nccl_absent.cpp
  /// @param team  names the members in messages: "all ranks", "team 2 (ranks 3-5)"
  explicit ClusterCommunicator(std::unique_ptr<Impl> impl, std::string team = "a team") noexcept;

 private:
  [[nodiscard]] Impl& impl() const;

  template <class Call>
  decltype(auto) collective(const char* name, const Call& call);

  std::unique_ptr<Impl> impl_;
  std::string team_;
  std::int64_t num_collectives_ = 0;  ///< begun so far; names them in the watchdog's message
};

/// kMpi: always. kNccl: built in, and this process sees a usable device. A fact of this rank alone:
/// reduce it over the world (kMin) before a decision hangs on it.
[[nodiscard]] bool backend_is_usable(Backend backend) noexcept;

}  // namespace apo::comm
