#include "verify_directory.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"
#include "apo/store/directory_state.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<std::int64_t> integer(const store::Document& document, const std::string& group,
                                    const std::string& name) {
  const auto owner = document.attributes.find(group);
  if (owner == document.attributes.end() || owner->second.count(name) == 0) {
    return std::nullopt;
  }
  const auto* value = std::get_if<std::int64_t>(&owner->second.at(name));
  return value != nullptr ? std::optional<std::int64_t>(*value) : std::nullopt;
}

/// Rows of phase1/rounds and phase2/rounds: one line of metrics.jsonl for each.
std::int64_t rows_of(const store::Document& document) {
  std::int64_t rows = 0;
  for (const char* path : {"phase1/rounds/round", "phase2/rounds/round"}) {
    const auto array = document.arrays.find(path);
    if (array != document.arrays.end() && !array->second.shape.empty()) {
      rows += array->second.shape[0];
    }
  }
  return rows;
}

/// Reads and checks `file.path`. A running job may replace or prune it between two system calls:
/// what looks damaged is looked at again.
/// @returns the document; empty when it is damaged (`damage` says how) or has gone
std::optional<store::Document> read_checked(VerifiedFile& file) {
  for (int attempt = 1;; ++attempt) {
    std::error_code code;
    file.num_bytes = fs::file_size(file.path, code);
    if (code) {
      file.num_bytes = 0;
    }
    try {
      store::Document document = store::read_document(file.path);
      file.damage.clear();
      return document;
    } catch (const Error& error) {
      file.damage = error.what();
    }
    if (attempt == 2 || !fs::exists(file.path, code)) {
      return std::nullopt;
    }
  }
}

void look_at_checkpoints(DirectoryReport& report) {
  std::error_code ignored;
  for (const store::CheckpointFile& file : store::list_checkpoints(report.dir)) {
    VerifiedCheckpoint checkpoint;
    checkpoint.path = file.path;
    checkpoint.generation = file.generation;
    if (const auto document = read_checked(checkpoint)) {
      checkpoint.rounds = integer(*document, "state", "rounds_done").value_or(-1);
      checkpoint.total_rounds = integer(*document, "state", "rounds_total").value_or(-1);
      checkpoint.metrics_size = integer(*document, "state", "metrics_size").value_or(-1);
      checkpoint.rows = rows_of(*document);
      if (checkpoint.rounds < 0 || checkpoint.metrics_size < 0) {
        checkpoint.damage = file.path.string() + ": whole, but not the state of a run";
      }
    } else if (!fs::exists(file.path, ignored)) {
      continue;  // pruned by the running job
    }
    report.checkpoints.push_back(std::move(checkpoint));
  }
  for (std::size_t k = report.checkpoints.size(); k-- > 0;) {
    if (report.checkpoints[k].damage.empty()) {
      report.resume = static_cast<int>(k);
      break;
    }
  }
  for (std::size_t k = 0; k < report.checkpoints.size(); ++k) {
    const VerifiedCheckpoint& checkpoint = report.checkpoints[k];
    if (checkpoint.damage.empty()) {
      continue;
    }
    const std::string text =
        fmt::format("checkpoint {} is damaged: {}", checkpoint.generation, checkpoint.damage);
    (static_cast<int>(k) > report.resume ? report.problems : report.notes).push_back(text);
  }
}

/// A line of metrics.jsonl is one JSON object.
std::optional<std::string> wrong_line(std::string_view text, std::int64_t number) {
  const json line = json::parse(text, nullptr, false);
  if (line.is_object()) {
    return std::nullopt;
  }
  return fmt::format("metrics.jsonl: line {} is not a JSON object", number);
}

void look_at_metrics(DirectoryReport& report, std::int64_t rows_of_run_file) {
  const fs::path path = report.dir / "metrics.jsonl";
  std::error_code code;
  if (!fs::exists(path, code)) {
    if (report.resume >= 0 || rows_of_run_file > 0) {
      report.problems.push_back("metrics.jsonl is missing");
    }
    return;
  }
  report.metrics.exists = true;
  const std::string text = read_text_file(path);
  report.metrics.num_bytes = static_cast<std::int64_t>(text.size());
  const VerifiedCheckpoint* checkpoint =
      report.resume >= 0 ? &report.checkpoints[static_cast<std::size_t>(report.resume)] : nullptr;
  std::int64_t lines_of_checkpoint = 0;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    ++report.metrics.lines;
    if (auto wrong =
            wrong_line(std::string_view(text).substr(begin, end - begin), report.metrics.lines)) {
      report.problems.push_back(*wrong);
    }
    if (checkpoint != nullptr && static_cast<std::int64_t>(end) < checkpoint->metrics_size) {
      lines_of_checkpoint = report.metrics.lines;
    }
  }
  report.metrics.torn_bytes = static_cast<std::int64_t>(text.size() - begin);
  if (report.metrics.torn_bytes > 0 && !report.lock_held) {
    report.notes.push_back(
        fmt::format("metrics.jsonl: {} bytes of a torn last line, dropped by "
                    "the next start",
                    report.metrics.torn_bytes));
  }
  if (checkpoint != nullptr && !report.complete()) {
    if (checkpoint->metrics_size > report.metrics.num_bytes) {
      report.problems.push_back(fmt::format(
          "metrics.jsonl has {} bytes, but checkpoint {} was made at {}: lines are missing",
          report.metrics.num_bytes, checkpoint->generation, checkpoint->metrics_size));
    } else if (lines_of_checkpoint != checkpoint->rows) {
      report.problems.push_back(
          fmt::format("metrics.jsonl: {} lines up to checkpoint {}, which holds {} rounds of "
                      "clusters",
                      lines_of_checkpoint, checkpoint->generation, checkpoint->rows));
    } else if (report.metrics.lines > checkpoint->rows && !report.lock_held) {
      report.notes.push_back(fmt::format(
          "metrics.jsonl: {} lines are newer than the checkpoint, dropped by the next start",
          report.metrics.lines - checkpoint->rows));
    }
  }
  if (report.complete() && rows_of_run_file >= 0 && report.metrics.lines != rows_of_run_file) {
    report.problems.push_back(
        fmt::format("metrics.jsonl: {} lines, but run.h5 holds {} rounds of clusters",
                    report.metrics.lines, rows_of_run_file));
  }
}

void look_at_status(DirectoryReport& report) {
  const store::LockState lock = store::lock_state(report.dir);
  report.lock_held = lock.held;
  report.lock_holder = lock.holder;
  report.state = "not started";
  const fs::path path = report.dir / "status.json";
  if (fs::exists(path)) {
    const json status = json::parse(read_text_file(path), nullptr, false);
    if (!status.is_object() || !status.contains("state") || !status["state"].is_string()) {
      report.problems.push_back("status.json is damaged: not an object with a state");
    } else {
      report.state = status["state"];
      if (status.contains("round") && status["round"].is_number_integer()) {
        report.status_round = status["round"];
      }
    }
  }
  if (report.lock_held) {
    report.state = "running";
  } else if (report.state == "running" ||
             (report.state == "not started" && !store::list_checkpoints(report.dir).empty())) {
    report.state = "interrupted";
  }
}

std::string size_text(std::uint64_t bytes) {
  return bytes < 1024 * 1024 ? fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024.0)
                             : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576.0);
}

std::string next_start(const DirectoryReport& report) {
  if (report.is_done()) {
    return "nothing to do";
  }
  if (report.resume < 0) {
    return "from the beginning";
  }
  const VerifiedCheckpoint& from = report.checkpoints[static_cast<std::size_t>(report.resume)];
  return fmt::format("from checkpoint {}, after {} of {} rounds", from.generation, from.rounds,
                     from.total_rounds);
}

}  // namespace

DirectoryReport verify_directory(const fs::path& dir) {
  DirectoryReport report;
  report.dir = dir;
  const auto configuration = store::configuration_state(dir);
  if (configuration == store::ConfigurationState::kMissing) {
    throw Error(Fault::kData, fmt::format("{}: not the folder of a run: it has no "
                                          "configuration.ini",
                                          dir.string()));
  }
  if (configuration == store::ConfigurationState::kChanged) {
    report.problems.push_back(
        "configuration.ini was changed after the run began: a new start "
        "refuses it");
  }
  look_at_status(report);
  look_at_checkpoints(report);
  std::int64_t rows_of_run_file = -1;
  if (fs::exists(dir / "run.h5")) {
    report.run_file = VerifiedFile{dir / "run.h5", 0, {}};
    if (const auto document = read_checked(*report.run_file)) {
      rows_of_run_file = rows_of(*document);
    } else {
      report.problems.push_back("run.h5 is damaged: " + report.run_file->damage);
    }
  } else if (report.complete()) {
    report.problems.push_back("run.h5 is missing, though the run is complete");
  }
  look_at_metrics(report, rows_of_run_file);
  report.temporaries = store::list_temporaries(dir);
  if (!report.temporaries.empty() && !report.lock_held) {
    report.notes.push_back(
        fmt::format("{} temporary files of a process that was killed, removed "
                    "by the next start",
                    report.temporaries.size()));
  }
  return report;
}

std::string verify_text(const DirectoryReport& report) {
  std::string text;
  const auto row = [&](std::string_view label, std::string_view value) {
    text += fmt::format("{:<13}{}\n", label, value);
  };
  row("run", report.dir.string());
  row("state",
      report.state + (report.status_round >= 0 ? fmt::format(" (round {})", report.status_round)
                                               : std::string()));
  row("lock", report.lock_held ? "held by " + report.lock_holder : "free");
  for (const VerifiedCheckpoint& checkpoint : report.checkpoints) {
    row(fmt::format("checkpoint {}", checkpoint.generation),
        checkpoint.damage.empty()
            ? fmt::format(" ok, {} of {} rounds, {}", checkpoint.rounds, checkpoint.total_rounds,
                          size_text(checkpoint.num_bytes))
            : " DAMAGED: " + checkpoint.damage);
  }
  if (report.checkpoints.empty()) {
    row("checkpoints", "none");
  }
  if (report.run_file) {
    row("run.h5", report.run_file->damage.empty() ? "ok, " + size_text(report.run_file->num_bytes)
                                                  : "DAMAGED: " + report.run_file->damage);
  } else {
    row("run.h5", "none");
  }
  row("metrics", report.metrics.exists ? fmt::format("{} lines", report.metrics.lines) : "none");
  for (const std::string& note : report.notes) {
    row("note", note);
  }
  for (const std::string& problem : report.problems) {
    row("problem", problem);
  }
  row("next start", next_start(report));
  return text;
}

std::string verify_json(const DirectoryReport& report) {
  json object;
  object["directory"] = report.dir.string();
  object["state"] = report.state;
  object["status_round"] = report.status_round >= 0 ? json(report.status_round) : json();
  object["lock"] = {{"held", report.lock_held}, {"holder", report.lock_holder}};
  object["checkpoints"] = json::array();
  for (const VerifiedCheckpoint& checkpoint : report.checkpoints) {
    json entry = {{"generation", checkpoint.generation},
                  {"path", checkpoint.path.string()},
                  {"bytes", checkpoint.num_bytes},
                  {"ok", checkpoint.damage.empty()}};
    if (checkpoint.damage.empty()) {
      entry["rounds"] = checkpoint.rounds;
      entry["total_rounds"] = checkpoint.total_rounds;
    } else {
      entry["damage"] = checkpoint.damage;
    }
    object["checkpoints"].push_back(std::move(entry));
  }
  object["run_file"] = nullptr;
  if (report.run_file) {
    object["run_file"] = {{"ok", report.run_file->damage.empty()},
                          {"bytes", report.run_file->num_bytes},
                          {"damage", report.run_file->damage}};
  }
  object["metrics"] = {{"exists", report.metrics.exists},
                       {"lines", report.metrics.lines},
                       {"bytes", report.metrics.num_bytes},
                       {"torn_bytes", report.metrics.torn_bytes}};
  object["temporaries"] = json::array();
  for (const fs::path& path : report.temporaries) {
    object["temporaries"].push_back(path.string());
  }
  object["resume"] = nullptr;
  if (report.resume >= 0 && !report.is_done()) {
    const VerifiedCheckpoint& from = report.checkpoints[static_cast<std::size_t>(report.resume)];
    object["resume"] = {{"generation", from.generation}, {"round", from.rounds}};
  }
  object["next_start"] = next_start(report);
  object["notes"] = report.notes;
  object["problems"] = report.problems;
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace apo::cli
