#pragma once

/// @file
/// The GPUs of this host. Private to comm; implemented with and without CUDA (nccl_device.cpp,
/// nccl_absent.cpp).

#include <optional>
#include <string>

#include "apo/comm/device_map.hpp"

namespace apo::comm {

struct HostDevice {
  std::optional<RankDevice> device;
  std::string why_none;  ///< when there is no device
};

/// The GPU for the process with this place on its host.
[[nodiscard]] HostDevice device_of_host(int local_rank);

}  // namespace apo::comm
