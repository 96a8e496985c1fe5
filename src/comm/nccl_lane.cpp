#include "nccl_lane.hpp"

#include <utility>

#include "nccl_device.hpp"

#include "apo/core/error.hpp"

namespace apo::comm {

std::shared_ptr<DeviceLane> DeviceLane::of_process(int device) {
  static std::weak_ptr<DeviceLane> the_lane;
  std::shared_ptr<DeviceLane> lane = the_lane.lock();
  if (!lane) {
    the_lane = lane = std::make_shared<DeviceLane>(device);
  }
  expects(lane->device_ == device, "teams of one process on two devices");
  return lane;
}

DeviceLane::DeviceLane(int device) : device_(device) {
  cuda_check(cudaSetDevice(device_), "cudaSetDevice");
  // Non-blocking: it does not wait for the default stream, on which others may compute.
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
}

DeviceLane::~DeviceLane() {
  release_buffers();
  cudaStreamDestroy(stream_);
}

DeviceLane::Turn::Turn(DeviceLane& lane) : lane_(lane) {
  expects(!lane_.in_use_, "two NCCL collectives of one process at a time");
  cuda_check(cudaSetDevice(lane_.device_), "cudaSetDevice");  // others may have set another
  lane_.in_use_ = true;
}

DeviceLane::Turn::~Turn() { lane_.in_use_ = false; }

void DeviceLane::release_buffers() noexcept {
  if (device_buffer_ != nullptr) {
    cudaFree(std::exchange(device_buffer_, nullptr));
  }
  if (host_buffer_ != nullptr) {
    cudaFreeHost(std::exchange(host_buffer_, nullptr));
  }
  num_bytes_ = 0;
}

void DeviceLane::reserve(std::size_t num_bytes) {
  expects(num_bytes <= kMaxBytes, "a piece of a collective is larger than the lane");
  if (num_bytes <= num_bytes_) {
    return;
  }
  release_buffers();
  cuda_check(cudaMalloc(&device_buffer_, num_bytes), "cudaMalloc");
  cuda_check(cudaMallocHost(&host_buffer_, num_bytes), "cudaMallocHost");
  num_bytes_ = num_bytes;
}

void DeviceLane::start_copy_in(std::size_t num_bytes) {
  cuda_check(
      cudaMemcpyAsync(device_buffer_, host_buffer_, num_bytes, cudaMemcpyHostToDevice, stream_),
      "cudaMemcpyAsync");
}

void DeviceLane::start_copy_out(std::size_t num_bytes) {
  cuda_check(
      cudaMemcpyAsync(host_buffer_, device_buffer_, num_bytes, cudaMemcpyDeviceToHost, stream_),
      "cudaMemcpyAsync");
}

}  // namespace apo::comm
