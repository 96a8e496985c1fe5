#include "plan_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

std::string title(const char* name) { return fmt::format("\n{}\n", name); }

std::string ranks_of(const federation::Team& team) {
  const int last = team.first_rank + team.num_ranks - 1;
  return team.num_ranks == 1 ? std::to_string(team.first_rank)
                             : fmt::format("{}-{}", team.first_rank, last);
}

std::string teams_text(const PlanReport& report) {
  std::string text = title("teams");
  text += fmt::format("  {:<6} {:<9} {:<9} {:<9} {}\n", "team", "ranks", "cluster", "clients",
                      "bottleneck order");
  const auto& teams = report.work.placement.teams;
  for (std::size_t t = 0; t < teams.size(); ++t) {
    for (const int cluster : teams[t].clusters) {
      const auto c = static_cast<std::size_t>(cluster);
      text += fmt::format("  {:<6} {:<9} {:<9} {:<9} {}\n", t, ranks_of(teams[t]), cluster,
                          report.inputs.groups[c].size(),
                          c < report.cluster_names.size() ? report.cluster_names[c] : "");
    }
  }
  text += "  clusters: " + report.clusters_from + "\n";
  if (!report.clustering_warning.empty()) {
    text += "  " + report.clustering_warning + "\n";
  }
  return text;
}

std::string work_text(const PlanReport& report) {
  std::string text = title("work");
  text +=
      fmt::format("  {:<12} {:>8} {:>15} {:>10}\n", "phase", "rounds", "client rounds", "steps");
  for (const methods::PhaseCount& phase : report.work.phases) {
    text += fmt::format("  {:<12} {:>8} {:>15} {:>10}\n", phase.name, phase.rounds,
                        phase.client_rounds, phase.steps);
  }
  text += fmt::format("  audits of every cluster: {}; checkpoints: {}\n", report.work.num_audits,
                      report.work.num_checkpoints);
  return text;
}

std::string memory_text(const PlanReport& report) {
  std::string text = title("memory of a rank");
  const auto line = [&text](const methods::MemoryPart& part, const char* mark) {
    if (part.bytes > 0.0) {
      text += fmt::format("  {:<34} {:>10}{}\n", part.name, human_bytes(part.bytes), mark);
    }
  };
  for (const methods::MemoryPart& part : report.memory.resident) {
    line(part, "");
  }
  text += "  and the largest of\n";
  for (const methods::MemoryPart& part : report.memory.stages) {
    line(part, part.name == report.memory.peak_stage ? "  *" : "");
  }
  text += fmt::format("  {:<34} {:>10}, other ranks {}\n", "peak of rank 0",
                      human_bytes(report.memory.peak), human_bytes(report.memory.peak_others));
  text += fmt::format("  {:<34} {:>10} of {} ({})\n",
                      fmt::format("node, {} ranks",
                                  std::min(report.inputs.ranks_per_node, report.inputs.num_ranks)),
                      human_bytes(report.memory.node), human_bytes(report.node_limit),
                      report.limit_from);
  if (report.node_available > 0.0 && report.memory.node > report.node_available) {
    text += fmt::format("  warning: only {} are available on this machine now\n",
                        human_bytes(report.node_available));
  }
  return text;
}

std::string device_text(const PlanReport& report) {
  if (report.device.parts.empty()) {
    return "";
  }
  std::string text = title("memory of a rank's device");
  for (const methods::MemoryPart& part : report.device.parts) {
    text += fmt::format("  {:<34} {:>10}\n", part.name, human_bytes(part.bytes));
  }
  return text + fmt::format("  {:<34} {:>10} of {} ({})\n", "together",
                            human_bytes(report.device.total), human_bytes(report.device_limit),
                            report.device_from);
}

std::string bytes_text(const PlanReport& report) {
  std::string text = title("bytes reduced per rank");
  text += fmt::format("  {:<34} {:>10}\n", "round of a cluster, Phase I",
                      human_bytes(static_cast<double>(report.traffic.round_bytes)));
  if (report.traffic.audit_bytes > 0) {
    text += fmt::format("  {:<34} {:>10}\n", "audit of a cluster",
                        human_bytes(static_cast<double>(report.traffic.audit_bytes)));
  }
  if (report.traffic.meta_round_bytes > 0) {
    text += fmt::format("  {:<34} {:>10}\n", "round of a cluster, Phase II",
                        human_bytes(static_cast<double>(report.traffic.meta_round_bytes)));
  }
  text += title("disk");
  const methods::DiskPlan& disk = report.disk;
  text += fmt::format("  {:<34} {:>10}, {} per round\n", "run.h5", human_bytes(disk.run_file_bytes),
                      human_bytes(disk.history_bytes_per_round));
  text += fmt::format("  {:<34} {:>10}, {} kept\n", "largest checkpoint",
                      human_bytes(disk.checkpoint_bytes), report.inputs.checkpoints_kept);
  text += fmt::format("  {:<34} {:>10}\n", "adapters", human_bytes(disk.adapter_bytes));
  text += fmt::format("  {:<34} {:>10}{}\n", "most at any time", human_bytes(disk.total_bytes),
                      report.disk_free >= 0.0
                          ? fmt::format(" of {} free", human_bytes(report.disk_free))
                          : std::string());
  return text;
}

std::string time_text(const PlanReport& report) {
  std::string text = title("time");
  if (!report.calibrated) {
    return text + "  not predicted without calibration\n";
  }
  const double total = methods::total_seconds(report.time);
  for (const methods::TimePart& part : report.time) {
    if (part.seconds > 0.0) {
      text += fmt::format("  {:<34} {:>10} {:>5.0f} %\n", part.name, human_duration(part.seconds),
                          100.0 * part.seconds / total);
    }
  }
  return text + fmt::format("  {:<34} {:>10}   (calibrated here in {})\n", "whole run",
                            human_duration(total), human_duration(report.calibration_seconds));
}

nlohmann::json parts_json(const std::vector<methods::MemoryPart>& parts) {
  nlohmann::json json = nlohmann::json::object();
  for (const methods::MemoryPart& part : parts) {
    json[part.name] = std::llround(part.bytes);
  }
  return json;
}

}  // namespace

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024.0 && unit + 1 < kUnits.size()) {
    bytes /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

double parse_bytes(const std::string& option, const std::string& text) {
  std::size_t end = 0;
  double value = 0.0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  static const std::string letters = "KMGT";
  std::string unit = text.substr(end);
  if (unit.size() > 1 && (unit.substr(1) == "iB" || unit.substr(1) == "B")) {
    unit.resize(1);
  }
  const std::size_t power = unit.empty() ? 0 : letters.find(unit);
  if (end == 0 || !(value > 0.0) || !std::isfinite(value) || unit.size() > 1 ||
      power == std::string::npos) {
    throw Error(Fault::kConfig,
                fmt::format("{}: expected bytes such as 64G or 1.5T, found '{}'", option, text));
  }
  return unit.empty() ? value : value * std::pow(1024.0, static_cast<double>(power) + 1.0);
}

std::string refusal(const PlanReport& report) {
  std::string text;
  const auto refuse = [&text](const std::string& why, const methods::Change& change,
                              const char* where) {
    text += text.empty() ? "" : "\n";
    text += why;
    text +=
        change.what.empty()
            ? fmt::format(
                  "\nno single change makes it fit: the model alone is too large for the {}", where)
            : fmt::format("\nsmallest change that fits: {} ({}): {}", change.what, change.effect,
                          human_bytes(change.bytes));
  };
  if (report.memory.node > report.node_limit) {
    refuse(fmt::format("{} ranks on a node need {}, but it has {} ({})",
                       std::min(report.inputs.ranks_per_node, report.inputs.num_ranks),
                       human_bytes(report.memory.node), human_bytes(report.node_limit),
                       report.limit_from),
           report.change, "node");
  }
  if (report.device.total > report.device_limit) {
    refuse(fmt::format("a rank needs {} of its device, but it has {} ({})",
                       human_bytes(report.device.total), human_bytes(report.device_limit),
                       report.device_from),
           report.device_change, "device");
  }
  if (report.disk_free >= 0.0 && report.disk.total_bytes > report.disk_free) {
    text += text.empty() ? "" : "\n";
    text += fmt::format("the folder needs {}, but its disk has {} free",
                        human_bytes(report.disk.total_bytes), human_bytes(report.disk_free));
    const double fewer =
        (report.disk_free - report.disk.total_bytes) / report.disk.checkpoint_bytes;
    const int keep = report.inputs.checkpoints_kept + static_cast<int>(std::floor(fewer));
    text += keep >= 1 ? fmt::format("\nsmallest change that fits: checkpoint.keep = {}", keep)
                      : "\nno smaller checkpoint.keep makes it fit";
  }
  return text;
}

std::string plan_text(const PlanReport& report) {
  std::string text = fmt::format("plan of {}: {} ranks, {} per node\n", report.configuration,
                                 report.inputs.num_ranks, report.inputs.ranks_per_node);
  text += teams_text(report) + work_text(report) + memory_text(report) + device_text(report) +
          bytes_text(report) + time_text(report);
  text += report.fits ? "\nit fits\n" : "\nit does not fit\n";
  return text;
}

std::string plan_json(const PlanReport& report) {
  nlohmann::json json;
  json["configuration"] = report.configuration;
  json["ranks"] = report.inputs.num_ranks;
  json["ranks_per_node"] = report.inputs.ranks_per_node;
  json["fits"] = report.fits;
  json["clusters_from"] = report.clusters_from;
  if (!report.clustering_warning.empty()) {
    json["clustering_warning"] = report.clustering_warning;
  }
  json["teams"] = nlohmann::json::array();
  for (const federation::Team& team : report.work.placement.teams) {
    nlohmann::json clusters = nlohmann::json::array();
    for (const int cluster : team.clusters) {
      const auto c = static_cast<std::size_t>(cluster);
      clusters.push_back(
          {{"cluster", cluster},
           {"clients", report.inputs.groups[c].size()},
           {"bottleneck_order",
            c < report.cluster_names.size() ? report.cluster_names[c] : std::string()}});
    }
    json["teams"].push_back({{"first_rank", team.first_rank},
                             {"num_ranks", team.num_ranks},
                             {"clusters", std::move(clusters)}});
  }
  for (const methods::PhaseCount& phase : report.work.phases) {
    json["phases"][phase.name] = {
        {"rounds", phase.rounds}, {"client_rounds", phase.client_rounds}, {"steps", phase.steps}};
  }
  json["audits"] = report.work.num_audits;
  json["checkpoints"] = report.work.num_checkpoints;
  json["memory_bytes"] = {{"resident", parts_json(report.memory.resident)},
                          {"stages", parts_json(report.memory.stages)},
                          {"peak_stage", report.memory.peak_stage},
                          {"rank_0", std::llround(report.memory.peak)},
                          {"other_ranks", std::llround(report.memory.peak_others)},
                          {"node", std::llround(report.memory.node)},
                          {"node_limit", std::llround(report.node_limit)},
                          {"limit_from", report.limit_from}};
  if (!report.device.parts.empty()) {
    json["device_bytes"] = parts_json(report.device.parts);
    json["device_bytes"]["total"] = std::llround(report.device.total);
    json["device_bytes"]["limit"] = std::llround(report.device_limit);
    json["device_bytes"]["limit_from"] = report.device_from;
  }
  json["reduced_bytes"] = {{"phase1_round", report.traffic.round_bytes},
                           {"audit", report.traffic.audit_bytes},
                           {"phase2_round", report.traffic.meta_round_bytes}};
  json["disk_bytes"] = {{"run_file", std::llround(report.disk.run_file_bytes)},
                        {"run_file_per_round", std::llround(report.disk.history_bytes_per_round)},
                        {"checkpoint", std::llround(report.disk.checkpoint_bytes)},
                        {"adapters", std::llround(report.disk.adapter_bytes)},
                        {"most", std::llround(report.disk.total_bytes)}};
  if (report.disk_free >= 0.0) {
    json["disk_bytes"]["free"] = std::llround(report.disk_free);
  }
  if (report.calibrated) {
    for (const methods::TimePart& part : report.time) {
      json["seconds"][part.name] = part.seconds;
    }
    json["seconds"]["total"] = methods::total_seconds(report.time);
    json["calibration_seconds"] = report.calibration_seconds;
  }
  if (!report.fits) {
    json["refusal"] = refusal(report);
    json["change"] = report.change.what;
    if (!report.device_change.what.empty()) {
      json["device_change"] = report.device_change.what;
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace apo::cli
