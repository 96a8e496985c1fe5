#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "double_state.hpp"
#include <mpi.h>
#include <sys/mman.h>

namespace nccl_double {
namespace {

/// The address that the caller gets is mapped without access; the bytes lie elsewhere.
struct DeviceBuffer {
  std::size_t size = 0;
  std::unique_ptr<char[]> bytes;
};

std::map<char*, DeviceBuffer> device_buffers;
std::map<char*, std::size_t> pinned_buffers;
std::set<cudaStream_t> streams;

/// The buffer that holds [pointer, pointer + size), or end().
template <class Map, class Size>
auto find_range(Map& map, const char* pointer, std::size_t size, Size size_of) {
  auto it = map.upper_bound(const_cast<char*>(pointer));
  if (it == map.begin()) {
    return map.end();
  }
  --it;
  return pointer + size <= it->first + size_of(it->second) ? it : map.end();
}

bool is_pinned(const void* pointer, std::size_t size) {
  return find_range(pinned_buffers, static_cast<const char*>(pointer), size,
                    [](std::size_t s) { return s; }) != pinned_buffers.end();
}

}  // namespace

State& state() {
  static State the_state;
  return the_state;
}

void record(const std::string& call) {
  if (state().calls.empty() || state().calls.back() != call) {
    state().calls.push_back(call);
  }
  ++state().num_calls[call];
}

void violation(const std::string& text) { state().violations.push_back(text); }

char* device_bytes(const void* pointer, std::size_t size) {
  const char* p = static_cast<const char*>(pointer);
  const auto it = find_range(device_buffers, p, size, [](const DeviceBuffer& b) { return b.size; });
  if (it == device_buffers.end()) {
    violation("not device memory, or not that much of it");
    return nullptr;
  }
  return it->second.bytes.get() + (p - it->first);
}

void advance(cudaStream_t stream) {
  while (!stream->steps.empty() && stream->steps.front().advance()) {
    stream->steps.pop_front();
  }
}

void remove_steps(const void* owner) {
  for (cudaStream_t stream : streams) {
    std::erase_if(stream->steps, [&](const auto& step) { return step.owner == owner; });
  }
}

Switches& switches() { return state().switches; }
Live live() { return state().live; }
const std::vector<std::string>& calls() { return state().calls; }
int count_calls(const std::string& name) { return state().num_calls[name]; }
const std::vector<std::string>& violations() { return state().violations; }

void reset() {
  const Live alive = state().live;
  const int device = state().current_device;
  state() = State{};
  state().live = alive;
  state().current_device = device;
}

}  // namespace nccl_double

using namespace nccl_double;  // NOLINT: the functions below are the double

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = state().switches.num_devices;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= state().switches.num_devices) {
    return cudaErrorInvalidValue;
  }
  *properties = {};
  std::strcpy(properties->name, "Double 100");
  properties->totalGlobalMem = std::size_t{64} << 30U;
  properties->uuid.bytes[0] = static_cast<char>(0xD0);
  properties->uuid.bytes[15] = static_cast<char>(state().switches.same_uuid ? 0x77 : device);
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  record("cudaSetDevice");
  state().current_device = device;
  return device >= 0 && device < state().switches.num_devices ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  record("cudaStreamCreateWithFlags");
  if (flags != cudaStreamNonBlocking) {
    violation("a stream that waits for the default stream");
  }
  if (!streams.empty()) {
    violation("a second stream in the process");
  }
  *stream = new CUstream_st;
  streams.insert(*stream);
  ++state().live.streams;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  record("cudaStreamQuery");
  if (!streams.contains(stream)) {
    violation("query of a stream that is none");
    return cudaErrorInvalidValue;
  }
  const Switches& switches = state().switches;
  if (switches.stream_error_at != kNever && state().num_collectives >= switches.stream_error_at) {
    return cudaErrorIllegalAddress;
  }
  advance(stream);
  return stream->steps.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  record("cudaStreamDestroy");
  if (streams.erase(stream) == 0) {
    violation("destruction of a stream that is none");
    return cudaErrorInvalidValue;
  }
  if (std::any_of(stream->steps.begin(), stream->steps.end(),
                  [](const auto& step) { return step.owner != nullptr; })) {
    violation("destruction of a stream on which a collective runs");
  }
  delete stream;
  --state().live.streams;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t size) {
  record("cudaMalloc");
  const Switches& switches = state().switches;
  if (switches.fail_malloc_from != kNever &&
      state().num_calls["cudaMalloc"] >= switches.fail_malloc_from) {
    *pointer = nullptr;
    return cudaErrorMemoryAllocation;
  }
  void* address =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (size == 0 || address == MAP_FAILED) {
    return cudaErrorMemoryAllocation;
  }
  DeviceBuffer buffer{size, std::make_unique_for_overwrite<char[]>(size)};
  std::memset(buffer.bytes.get(), 0xAB, size);
  device_buffers.emplace(static_cast<char*>(address), std::move(buffer));
  *pointer = address;
  ++state().live.device_buffers;
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  record("cudaFree");
  const auto it = device_buffers.find(static_cast<char*>(pointer));
  if (it == device_buffers.end()) {
    violation("cudaFree of what is not allocated");
    return cudaErrorInvalidValue;
  }
  munmap(pointer, it->second.size);
  device_buffers.erase(it);
  --state().live.device_buffers;
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, size_t size) {
  record("cudaMallocHost");
  char* bytes = new char[size];
  std::memset(bytes, 0xCD, size);
  pinned_buffers.emplace(bytes, size);
  *pointer = bytes;
  ++state().live.pinned_buffers;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  record("cudaFreeHost");
  if (pinned_buffers.erase(static_cast<char*>(pointer)) == 0) {
    violation("cudaFreeHost of what is not allocated");
    return cudaErrorInvalidValue;
  }
  delete[] static_cast<char*>(pointer);
  --state().live.pinned_buffers;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_device = kind == cudaMemcpyHostToDevice;
  record(to_device ? "cudaMemcpyAsync(in)" : "cudaMemcpyAsync(out)");
  char* device = device_bytes(to_device ? target : source, count);
  if (!is_pinned(to_device ? source : target, count)) {
    violation("an asynchronous copy with pageable memory, which blocks");
  }
  if (device == nullptr || !streams.contains(stream)) {
    return cudaErrorInvalidValue;
  }
  stream->steps.push_back({nullptr, [=] {
                             if (to_device) {
                               std::memcpy(device, source, count);
                             } else {
                               std::memcpy(target, device, count);
                             }
                             return true;
                           }});
  return cudaSuccess;
}

}  // extern "C"
