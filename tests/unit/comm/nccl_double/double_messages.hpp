#pragma once

/// @file
/// What travels between the ranks of the double, and how it is added up.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpi.h>
#include <nccl.h>

namespace nccl_double {

/// Messages of one kind between this rank and one peer, or all of them, in flight.
struct Exchange {
  std::vector<std::vector<char>> out;
  std::vector<std::vector<char>> in;
  std::vector<MPI_Request> sends;
  std::vector<MPI_Request> receives;

  void send(int world_rank, int tag, std::vector<char> bytes);
  void receive(int world_rank, int tag, std::size_t size);
  /// True once everything has come and gone. A message of another size counts as a violation.
  bool finished();
  /// Gives everything up. MPI may still read the bytes of messages that nobody has received.
  void cancel();
};

/// What each rank sends before its numbers, so that the others can compare.
struct Header {
  int name;
  int type;
  int op;
  int root;
  std::int64_t count;
  std::int64_t number;
};

[[nodiscard]] std::size_t size_of(ncclDataType_t type);

/// sum[i] <- sum[i] op term[i] for header.count numbers.
void fold(char* sum, const char* term, const Header& header);

}  // namespace nccl_double
