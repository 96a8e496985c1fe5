#pragma once

/// @file
/// The plan as text and as JSON.

#include <string>
#include <vector>

#include "apo/methods/plan.hpp"

namespace apo::cli {

/// Everything that is shown; filled by plan.cpp.
struct PlanReport {
  std::string configuration;  ///< the file's name
  methods::PlanInputs inputs;
  methods::WorkPlan work;
  methods::TrafficPlan traffic;
  methods::DiskPlan disk;
  methods::MemoryPlan memory;
  std::vector<std::string> cluster_names;  ///< bottleneck orders, by cluster
  std::string clusters_from;  ///< what the clustering rests on: "exact", or why it is a guess
  std::string clustering_warning;
  double node_limit = 0.0;       ///< bytes
  double node_available = 0.0;   ///< bytes; 0: not this machine
  std::string limit_from;        ///< "--memory-per-node", "this machine"
  methods::DeviceMemory device;  ///< of a rank; without parts: no device
  double device_limit = 0.0;     ///< bytes
  std::string device_from;       ///< "--device-memory", or the GPU's name
  methods::Change device_change;
  double disk_free = -1.0;  ///< bytes; negative: not asked
  bool fits = true;         ///< memory and disk
  methods::Change change;   ///< what would make it fit
  bool calibrated = false;
  double calibration_seconds = 0.0;
  std::vector<methods::TimePart> time;  ///< empty without calibration
};

[[nodiscard]] std::string plan_text(const PlanReport& report);
[[nodiscard]] std::string plan_json(const PlanReport& report);

/// "1.8 GiB"
[[nodiscard]] std::string human_bytes(double bytes);

/// Why it does not fit and what would, in one line or two.
[[nodiscard]] std::string refusal(const PlanReport& report);

/// "512G", "1.5T", "16384M", "100000K", or bytes, with binary units.
/// @throws Error(kConfig)
[[nodiscard]] double parse_bytes(const std::string& option, const std::string& text);

}  // namespace apo::cli
