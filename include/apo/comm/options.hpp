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
  std::string reduction = "ordered";  ///< ordered | fast
  int threads = 1;
};

void declare(FieldTable& table, RuntimeOptions& options);

}  // namespace apo::comm
