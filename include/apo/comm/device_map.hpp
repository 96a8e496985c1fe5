#pragma once

/// @file
/// Which device each rank of the job computes on.
///
/// Room rule: comm may include core only. No mpi.h, nccl.h or cuda headers in this header.

#include <string>

namespace apo::comm {

class World;

/// Where a rank's tensors live.
struct RankDevice {
  std::string name = "cpu";  ///< "cpu" or "cuda:<number>", as libraries of tensors read it
  std::string model;         ///< "NVIDIA H200 GPU-<uuid>"; empty: cpu
  double memory = 0.0;       ///< bytes of the GPU; 0: cpu

  [[nodiscard]] bool is_gpu() const { return name != "cpu"; }
};

/// The device that runtime.device means for this rank. GPUs go round by a rank's place on its host,
/// so that all GPUs of a host should be visible to all its ranks; with more ranks than GPUs some
/// share one. "auto" is the GPU where every rank of the job has one, else the CPU for all: ranks
/// that compute in different ways would not agree in their last bits. Collective over the world.
///
/// @param wanted  auto | cpu | cuda
/// @throws Error(kDevice)  cuda, and a rank sees no usable GPU, or this build has no CUDA; on all
///                         ranks, naming the lowest such rank's host
[[nodiscard]] RankDevice choose_rank_device(World& world, const std::string& wanted);

/// "NCCL 23007 at run time, 23007 at build time; CUDA 13000"; "none": built without.
[[nodiscard]] std::string accelerator_versions();

}  // namespace apo::comm
