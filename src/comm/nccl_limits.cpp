#include "apo/comm/nccl_limits.hpp"

#include <cmath>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::comm {
namespace {

NcclLimits limits_of_process;

}  // namespace

void set_nccl_limits(const NcclLimits& limits) {
  expects(std::isfinite(limits.timeout) && limits.timeout >= 0.0,
          fmt::format("time-out of NCCL collectives is {} s, expected 0 or more", limits.timeout));
  expects(std::isfinite(limits.grace) && limits.grace > 0.0,
          fmt::format("grace time of NCCL is {} s, expected more than 0", limits.grace));
  limits_of_process = limits;
}

NcclLimits nccl_limits() noexcept { return limits_of_process; }

NcclLimits nccl_limits_before_watchdog(double timeout) {
  constexpr double kShare = 0.9;
  return {.timeout = kShare * timeout, .grace = NcclLimits{}.grace};
}

}  // namespace apo::comm
