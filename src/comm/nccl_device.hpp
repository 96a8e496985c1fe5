#pragma once

/// @file
/// Checked NCCL and CUDA calls, and the choice of this process' device. Private to comm.

#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace apo::comm {

class World;

[[nodiscard]] std::string nccl_versions();  ///< "NCCL 23007 at run time, 23007 at build time"

/// @throws CallError  with CUDA's text when `code` is not cudaSuccess
void cuda_check(cudaError_t code, const char* call);

/// ncclInProgress passes: every communicator is non-blocking.
///
/// @param comm  whose last error to ask for; nullptr: the last one of the process
/// @throws CallError  with NCCL's text
void nccl_check(ncclResult_t code, const char* call, ncclComm_t comm);

/// Picks the device of every rank that is a member of a team by its place on its host, and looks
/// over MPI for what NCCL would refuse later, on some ranks only and without naming them: two ranks
/// on one device, ranks with different versions of NCCL, a library older than the header.
/// Collective over the world; throws the same error on all ranks.
///
/// @return  CUDA's number of the device; -1 when not a member
/// @throws Error(kDevice)   no device, or one device for two ranks
/// @throws Error(kBackend)  versions
[[nodiscard]] int choose_device(World& world, bool is_member);

}  // namespace apo::comm
