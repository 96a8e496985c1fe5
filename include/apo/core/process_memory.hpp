#pragma once

/// @file
/// Memory of this process and of its node, as the kernel counts it (proc(5)).

#include <cstdint>

namespace apo {

/// Resident memory of this process, bytes.
struct ProcessMemory {
  std::int64_t anonymous = 0;  ///< its own: heap, stacks
  std::int64_t file = 0;       ///< pages of libraries and files: processes of one node share them
  std::int64_t shared = 0;     ///< shared memory, as MPI makes for the ranks of a node
  std::int64_t peak = 0;       ///< largest sum of the three since the start, or the last reset

  [[nodiscard]] std::int64_t resident() const { return anonymous + file + shared; }
};

/// @throws BackendError  /proc/self/status cannot be read
[[nodiscard]] ProcessMemory process_memory();

/// Makes `peak` start again from what is resident now.
/// @return false where the kernel does not let it
bool reset_peak_memory();

/// Gives freed heap back to the kernel, so that what is resident is what is in use.
void release_freed_memory();

/// Memory of this node, bytes. Limits of the process' control group count.
struct NodeMemory {
  std::int64_t total = 0;      ///< what there is, or the control group's limit where it is lower
  std::int64_t available = 0;  ///< what could be had now without swapping; at most `total`
};

/// @throws BackendError  /proc/meminfo cannot be read
[[nodiscard]] NodeMemory node_memory();

}  // namespace apo
