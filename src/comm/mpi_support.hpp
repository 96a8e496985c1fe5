#pragma once

/// @file
/// MPI calls with their return codes checked, and the one owner of an MPI_Comm. Private to comm.

#include <cstddef>
#include <string>

#include <mpi.h>

#include "apo/core/error.hpp"

namespace apo::comm {

/// Largest count of one MPI message: MPI 3 counts in int.
inline constexpr std::size_t kMaxCount = std::size_t{1} << 30;

/// @throws BackendError  with MPI's own text when `code` is not MPI_SUCCESS
void mpi_check(int code, const char* call, Where where = Where::here());

[[nodiscard]] bool mpi_is_running() noexcept;  ///< initialised and not yet finalised
[[nodiscard]] std::string host_name();

/// Sole owner of a communicator. The destructor frees it without a check, and only while MPI runs.
class UniqueComm {
 public:
  UniqueComm() noexcept = default;
  explicit UniqueComm(MPI_Comm comm) noexcept : comm_(comm) {}
  UniqueComm(UniqueComm&& other) noexcept;
  UniqueComm& operator=(UniqueComm&& other) noexcept;
  UniqueComm(const UniqueComm&) = delete;
  UniqueComm& operator=(const UniqueComm&) = delete;
  ~UniqueComm();

  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  [[nodiscard]] bool valid() const noexcept { return comm_ != MPI_COMM_NULL; }
  void free();  ///< checked; idempotent

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace apo::comm
