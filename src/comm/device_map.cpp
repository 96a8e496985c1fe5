#include "apo/comm/device_map.hpp"

#include <array>

#include "device_of_host.hpp"
#include <fmt/format.h>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/comm/world.hpp"
#include "apo/core/error.hpp"

namespace apo::comm {

RankDevice choose_rank_device(World& world, const std::string& wanted) {
  expects(wanted == "auto" || wanted == "cpu" || wanted == "cuda",
          fmt::format("runtime.device is '{}', expected auto, cpu or cuda", wanted));
  if (wanted == "cpu") {
    return {};
  }
  HostDevice mine = device_of_host(world.local_rank());
  std::array<double, 1> all_have = {mine.device ? 1.0 : 0.0};
  world.all().all_reduce(std::span<double>(all_have), Reduction::kMin);
  if (all_have[0] != 0.0) {
    return std::move(*mine.device);
  }
  if (wanted == "cuda") {
    world.all().run_and_agree([&] {
      if (!mine.device) {
        throw Error(Fault::kDevice,
                    fmt::format("runtime.device = cuda: no usable GPU on host {}: {}. Set "
                                "runtime.device = cpu to run without",
                                world.host(), mine.why_none));
      }
    });
  }
  return {};
}

}  // namespace apo::comm
