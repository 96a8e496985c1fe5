#include "double_messages.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "double_state.hpp"

namespace nccl_double {
namespace {

bool all_finished(std::vector<MPI_Request>& requests) {
  int all = 1;
  for (MPI_Request& request : requests) {
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      violation("a message of another size: ranks call different collectives");
    }
    all &= done;
  }
  return all != 0;
}

template <class T>
void fold(char* sum, const char* term, std::size_t count, ncclRedOp_t op) {
  for (std::size_t i = 0; i < count; ++i) {
    T a;
    T b;
    std::memcpy(&a, sum + i * sizeof(T), sizeof(T));
    std::memcpy(&b, term + i * sizeof(T), sizeof(T));
    a = op == ncclSum ? static_cast<T>(a + b) : op == ncclMax ? std::max(a, b) : std::min(a, b);
    std::memcpy(sum + i * sizeof(T), &a, sizeof(T));
  }
}

}  // namespace

void Exchange::send(int world_rank, int tag, std::vector<char> bytes) {
  out.push_back(std::move(bytes));
  MPI_Isend(out.back().data(), static_cast<int>(out.back().size()), MPI_BYTE, world_rank, tag,
            MPI_COMM_WORLD, &sends.emplace_back(MPI_REQUEST_NULL));
}

void Exchange::receive(int world_rank, int tag, std::size_t size) {
  in.emplace_back(size);
  MPI_Irecv(in.back().data(), static_cast<int>(size), MPI_BYTE, world_rank, tag, MPI_COMM_WORLD,
            &receives.emplace_back(MPI_REQUEST_NULL));
}

bool Exchange::finished() {
  const bool sent = all_finished(sends);
  return all_finished(receives) && sent;
}

void Exchange::cancel() {
  for (MPI_Request& request : receives) {
    if (request != MPI_REQUEST_NULL) {
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  for (MPI_Request& request : sends) {
    if (request != MPI_REQUEST_NULL) {
      MPI_Request_free(&request);
    }
  }
}

std::size_t size_of(ncclDataType_t type) {
  return type == ncclUint8 ? 1 : type == ncclFloat ? 4 : 8;
}

void fold(char* sum, const char* term, const Header& header) {
  const auto count = static_cast<std::size_t>(header.count);
  const auto op = static_cast<ncclRedOp_t>(header.op);
  switch (static_cast<ncclDataType_t>(header.type)) {
    case ncclDouble:
      return fold<double>(sum, term, count, op);
    case ncclFloat:
      return fold<float>(sum, term, count, op);
    case ncclInt64:
      return fold<std::int64_t>(sum, term, count, op);
    case ncclUint8:
      return fold<std::uint8_t>(sum, term, count, op);
  }
}

}  // namespace nccl_double
