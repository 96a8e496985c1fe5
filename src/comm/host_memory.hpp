#pragma once

/// @file
/// Memory that the ranks of one host share. Private to comm.

#include <cstddef>

#include "apo/comm/cluster_communicator.hpp"

namespace apo::comm {

/// Zeroed memory, mapped by all ranks of `host`. It has no name once the constructor is done, so a
/// killed job leaves none behind, and its end needs no communication. Where the host has no POSIX
/// shared memory (or the ranks see different ones), each rank gets memory of its own.
class HostMemory {
 public:
  /// Collective over `host`.
  HostMemory(ClusterCommunicator& host, std::size_t bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] bool is_shared() const noexcept { return shared_; }  ///< the same on all ranks

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
  bool shared_ = false;
};

}  // namespace apo::comm
