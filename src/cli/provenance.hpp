#pragma once

/// @file
/// Where and with what a run was computed, for the run file (group /provenance) and apo inspect.

#include <string>

#include "apo/comm/device_map.hpp"
#include "apo/store/document.hpp"

namespace apo::comm {
class World;
}

namespace apo::cli {

inline constexpr const char* kProvenance = "provenance";  ///< group of the run file
inline constexpr const char* kRestarts = "restarts";      ///< one entry per start of the run

/// Attributes of the group /provenance: revision, compiler and flags, the machine of each rank
/// (host, processor, cores it may use, threads, GPUs it sees; add_devices() says what it works on),
/// the batch job, command line, start; below it, in /provenance/libraries, the versions that run
/// (and those of the headers, where they differ), BLAS among them as torch names it.
///
/// Collective over the world: ranks may be on different machines.
void add_provenance(const comm::World& world, store::Document& document);

/// Attribute rank_device of /provenance: what each rank computes on. Collective over the world.
void add_devices(const comm::World& world, const comm::RankDevice& device,
                 store::Document& document);

struct Restart {
  std::string start_utc;
  std::string host;  ///< of rank 0
  int world_size = 1;
  int round = 0;  ///< rounds that were done when it began
};
/// Attributes of the group /restarts: lists with one entry per start. `earlier` is the checkpoint
/// that this start goes on from, or null.
/// @throws Error(kData)  the lists of `earlier` are not of one length
void add_restart(const store::Document* earlier, const Restart& now, store::Document& document);

}  // namespace apo::cli
