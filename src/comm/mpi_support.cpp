#include "mpi_support.hpp"

#include <array>
#include <utility>

#include <unistd.h>

namespace apo::comm {

void mpi_check(int code, const char* call, Where where) {
  if (code == MPI_SUCCESS) [[likely]] {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    length = 0;
  }
  throw BackendError(call, code, std::string(text.data(), static_cast<std::size_t>(length)), where);
}

bool mpi_is_running() noexcept {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);  // these two never fail and may be called at any time
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) {
    return "unknown";
  }
  return name.data();
}

UniqueComm::UniqueComm(UniqueComm&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}

UniqueComm& UniqueComm::operator=(UniqueComm&& other) noexcept {
  if (this != &other) {
    UniqueComm old(std::exchange(comm_, std::exchange(other.comm_, MPI_COMM_NULL)));
  }
  return *this;
}

UniqueComm::~UniqueComm() {
  if (valid() && mpi_is_running()) {
    MPI_Comm_free(&comm_);
  }
}

void UniqueComm::free() {
  if (valid() && mpi_is_running()) {
    mpi_check(MPI_Comm_free(&comm_), "MPI_Comm_free");
  }
  comm_ = MPI_COMM_NULL;
}

}  // namespace apo::comm
