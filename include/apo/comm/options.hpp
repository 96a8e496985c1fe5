#pragma once

/// @file
/// [runtime] of the configuration.

#include <cstdint>
#include <optional>
#include <string>

#include "apo/core/field_table.hpp"

namespace apo::comm {

struct RuntimeOptions {
  std::optional<std::uint64_t> seed;
  std::string device = "auto";        ///< auto | cpu | cuda
  std::string collectives = "auto";   ///< auto | mpi | nccl
  std::string reduction = "reproducible";  ///< reproducible | fast
  int threads = 1;
  double timeout = 600.0;  ///< s without progress after which the watchdog ends the job; 0: never
};

void declare(FieldTable& table, RuntimeOptions& options);

}  // namespace apo::comm
