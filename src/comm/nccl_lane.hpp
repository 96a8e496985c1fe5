#pragma once

/// @file
/// The one CUDA stream on which this process communicates, with its buffers. Private to comm.

#include <cstddef>
#include <memory>

#include <cuda_runtime_api.h>

namespace apo::comm {

/// All teams of a process share one lane, so that there is one stream and, by Turn, one collective
/// in flight: two communicators of one device at a time may wait for each other for ever.
///
/// Host buffers of callers pass through it in pieces: pageable memory would make the copies block
/// without a time limit. The buffers are kept between calls; they grow to the largest piece.
///
/// One thread. Calls throw CallError.
class DeviceLane {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  ///< largest piece

  /// The lane of this process, made when there is none; it lives as long as somebody holds it.
  [[nodiscard]] static std::shared_ptr<DeviceLane> of_process(int device);

  explicit DeviceLane(int device);
  ~DeviceLane();
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  /// The right to use the lane, for one collective.
  class Turn {
   public:
    explicit Turn(DeviceLane& lane);  ///< @throws Error(kInternal)  the lane is in use
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    DeviceLane& lane_;
  };

  void reserve(std::size_t num_bytes);  ///< at most kMaxBytes; what was in the buffers is lost
  void start_copy_in(std::size_t num_bytes);   ///< host() to device(), on the stream
  void start_copy_out(std::size_t num_bytes);  ///< device() to host(), on the stream

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  [[nodiscard]] void* device() const noexcept { return device_buffer_; }
  [[nodiscard]] void* host() const noexcept { return host_buffer_; }  ///< pinned

 private:
  void release_buffers() noexcept;

  int device_;
  cudaStream_t stream_ = nullptr;
  void* device_buffer_ = nullptr;
  void* host_buffer_ = nullptr;
  std::size_t num_bytes_ = 0;
  bool in_use_ = false;
};

}  // namespace apo::comm
