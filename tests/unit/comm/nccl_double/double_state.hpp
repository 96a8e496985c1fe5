#pragma once

/// @file
/// What the two halves of the double, nccl_double.cpp and cuda_double.cpp, know of each other.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nccl_double.hpp"

/// Steps run in order; a step that returns false is asked again later.
struct CUstream_st {
  struct Step {
    const void* owner;  ///< communicator, or nullptr
    std::function<bool()> advance;
  };
  std::deque<Step> steps;
};

namespace nccl_double {

struct State {
  Switches switches;
  Live live;
  std::vector<std::string> calls;
  std::map<std::string, int> num_calls;
  std::vector<std::string> violations;
  int num_collectives = 0;  ///< launched since reset()
  int in_flight = 0;
  int current_device = -1;
};

State& state();
void record(const std::string& call);
void violation(const std::string& text);

/// Bytes behind `size` bytes of device memory; nullptr and a violation when they are none.
char* device_bytes(const void* pointer, std::size_t size);

/// Runs the stream as far as it gets.
void advance(cudaStream_t stream);
/// Takes away the steps of an aborted communicator, as if its kernels had left.
void remove_steps(const void* owner);

}  // namespace nccl_double
