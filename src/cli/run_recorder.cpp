#include "run_recorder.hpp"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "broadcast_state.hpp"
#include "provenance.hpp"
#include "run_tables.hpp"
#include "stop_signals.hpp"
#include "training_checkpoint.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/federation/theory_monitor.hpp"

namespace apo::cli {
namespace {

constexpr double kSecondsBetweenLines = 10.0;

constexpr std::array<const char*, 3> kTheoryGroups = {"theory/rounds", "theory/clients",
                                                      "theory/pairs"};

std::string phase_group(std::size_t phase, const char* name) {
  return "phase" + std::to_string(phase + 1) + "/" + name;
}

/// What a checkpoint gives back.
struct Restored {
  federation::TrainingState state;
  std::vector<Table> steps, rounds, theory;
  std::int64_t metrics_size = 0;
  int rounds_done = 0;
};

/// @throws std::exception  something is missing or of another type
Restored get_restored(const store::Document& document) {
  Restored restored;
  restored.state = get_state(document);
  for (std::size_t phase = 0; phase < 2; ++phase) {
    restored.steps.push_back(document.get_table(phase_group(phase, "steps")));
    restored.rounds.push_back(document.get_table(phase_group(phase, "rounds")));
  }
  for (const char* group : kTheoryGroups) {
    restored.theory.push_back(document.get_table(group));
  }
  restored.metrics_size = std::get<std::int64_t>(document.attribute("state", "metrics_size"));
  restored.rounds_done =
      static_cast<int>(std::get<std::int64_t>(document.attribute("state", "rounds_done")));
  return restored;
}

}  // namespace

RunRecorder::RunRecorder(comm::World& world, store::RunDirectory* directory, store::Document header,
                         int num_objectives, int total_rounds)
    : world_(world),
      directory_(directory),
      header_(std::move(header)),
      steps_(2, step_table(num_objectives)),
      rounds_(2, round_table(num_objectives)),
      theory_{federation::theory_round_table(num_objectives),
              federation::theory_client_table(num_objectives),
              federation::theory_pair_table(num_objectives)},
      total_rounds_(total_rounds) {
  std::string signals;
  world.all().run_and_agree([&] {
    if (directory_ != nullptr) {
      const store::CheckpointOptions& options = directory_->options();
      signals = fmt::format("{}", fmt::join(options.stop_signals, " "));
      max_walltime_ = options.max_walltime;
    }
  });
  world.all().broadcast(signals, 0);
  world.all().broadcast(max_walltime_, 0);
  world.all().run_and_agree([&] {
    std::istringstream words(signals);
    install_stop_signals({std::istream_iterator<std::string>(words), {}});
    if (!max_walltime_.empty()) {
      limit_ = TimeLimit(parse_walltime("checkpoint.max_walltime", max_walltime_));
    }
  });
  add_provenance(world, header_);
}

std::optional<federation::TrainingState> RunRecorder::resume() {
  federation::TrainingState state;
  Restored restored;
  int found = 0;
  world_.all().run_and_agree([&] {
    if (directory_ == nullptr) {
      return;
    }
    take_status_of_last_start();
    const auto checkpoint = directory_->load_checkpoint(
        [&](const store::Document& document) { restored = get_restored(document); });
    if (!checkpoint) {
      directory_->truncate_metrics(0);
      add_restart(nullptr, {start_utc_, world_.host(), world_.size(), 0}, header_);
      return;
    }
    state = std::move(restored.state);
    steps_ = std::move(restored.steps);
    rounds_ = std::move(restored.rounds);
    theory_ = std::move(restored.theory);
    directory_->truncate_metrics(restored.metrics_size);
    done_ = done_at_start_ = restored.rounds_done;
    add_restart(&*checkpoint, {start_utc_, world_.host(), world_.size(), done_}, header_);
    found = 1;
  });
  round_.restart();
  comm::ClusterCommunicator& all = world_.all();
  std::vector<double> agreed = {static_cast<double>(found)};
  all.broadcast(std::span<double>(agreed), 0);
  if (agreed[0] == 0.0) {
    return std::nullopt;
  }
  broadcast_state(all, state);
  log::info("continuing from checkpoint {}: {} rounds of Phase I, {} of Phase II (start {})",
            directory_ != nullptr ? directory_->generation() : 0, state.phase1_rounds,
            state.phase2_rounds, state.variant);
  return state;
}

void RunRecorder::on_round(const federation::RoundReport& report) {
  const std::size_t phase = report.phase == federation::Phase::kOne ? 0 : 1;
  for (const federation::StepRecord& step : report.steps) {
    push(steps_[phase], step);
  }
  const bool nobody_delivered = report.mean_loss.empty();
  federation::RoundReport without_losses;
  if (nobody_delivered) {
    without_losses = report;
    without_losses.mean_loss.assign(
        static_cast<std::size_t>(rounds_[phase].find("mean_loss")->row_size()), std::nan(""));
    log::warn(
        "phase {} cluster {} round {}: no participant had finite numbers; the adapter is kept",
        phase + 1, report.cluster, report.round);
  } else if (report.num_failed > 0) {
    log::warn(
        "phase {} cluster {} round {}: {} participants left out, their numbers were not finite",
        phase + 1, report.cluster, report.round, report.num_failed);
  }
  const federation::RoundReport& row = nobody_delivered ? without_losses : report;
  push(rounds_[phase], row);
  const std::array<const Table*, 3> theory = {&report.theory_round, &report.theory_clients,
                                              &report.theory_pairs};
  for (std::size_t k = 0; k < theory.size(); ++k) {
    if (theory[k]->num_rows() > 0) {  // rounds that are not monitored bring none
      theory_[k].append(*theory[k]);
    }
  }
  last_loss_ = row.mean_loss;
  waiting_lines_.push_back(metrics_line(row));
  try {
    flush_metrics();
    warned_of_metrics_ = false;
  } catch (const Error& failure) {
    if (!warned_of_metrics_) {
      log::warn("metrics.jsonl lags behind, its lines wait in memory: {}", failure.what());
    }
    warned_of_metrics_ = true;
  }
}

void RunRecorder::flush_metrics() {
  std::size_t done = 0;
  try {
    for (; done < waiting_lines_.size(); ++done) {
      directory_->append_metrics(waiting_lines_[done]);
    }
  } catch (...) {
    waiting_lines_.erase(waiting_lines_.begin(),
                         waiting_lines_.begin() + static_cast<std::ptrdiff_t>(done));
    throw;
  }
  waiting_lines_.clear();
}

federation::RoundRequest RunRecorder::request() {
  federation::RoundRequest request;
  if (directory_ != nullptr) {
    limit_.add_round(round_.seconds());
    round_.restart();
    if (limit_.must_stop(seconds_of_process())) {
      request_stop("time limit " + max_walltime_);
    }
    const double minutes = directory_->options().every_minutes;
    request.checkpoint = minutes > 0.0 && since_checkpoint_.seconds() >= 60.0 * minutes;
  }
  request.stop = cli::stop_requested();
  if (request.stop && directory_ != nullptr) {
    log::info("{} asks to stop: checkpoint at the end of this round", stop_reason());
  }
  return request;
}

bool RunRecorder::stop_requested() const {
  if (limit_.must_stop(seconds_of_process())) {
    request_stop("time limit " + max_walltime_);
  }
  return cli::stop_requested();
}

std::string RunRecorder::stop_text() const {
  const std::string reason = stop_reason();
  return fmt::format("stopped({}) rounds={}/{}", reason.empty() ? "signal on another rank" : reason,
                     done_, total_rounds_);
}

void RunRecorder::on_progress(int done, int total) {
  done_ = done;
  const double elapsed = watch_.seconds();
  if (done != total && elapsed - last_line_ < kSecondsBetweenLines) {
    return;
  }
  last_line_ = elapsed;
  const double per_round = elapsed / std::max(1, done - done_at_start_);
  std::string losses;
  for (const double x : last_loss_) {
    losses += fmt::format(" {:.3f}", x);
  }
  log::info("{} round {}/{} ({:.0f}%) | loss{} | {:.2f} s/round | elapsed {} eta {}", utc_now(),
            done, total, 100.0 * done / std::max(1, total), losses, per_round,
            human_duration(elapsed), human_duration(per_round * (total - done)));
  try {
    put_status("running", 0);
    warned_of_status_ = false;
  } catch (const Error& failure) {
    if (!warned_of_status_) {
      log::warn("status.json lags behind: {}", failure.what());
    }
    warned_of_status_ = true;
  }
}

store::Document RunRecorder::history() const {
  store::Document document = header_;
  for (std::size_t phase = 0; phase < 2; ++phase) {
    document.put_table(phase_group(phase, "steps"), steps_[phase], "row");
    document.put_table(phase_group(phase, "rounds"), rounds_[phase], "row");
  }
  for (std::size_t k = 0; k < theory_.size(); ++k) {
    document.put_table(kTheoryGroups[k], theory_[k], "row");
  }
  return document;
}

void RunRecorder::on_checkpoint(const federation::TrainingState& state) {
  if (directory_ == nullptr) {
    return;
  }
  const Stopwatch watch;
  try {
    flush_metrics();
    store::Document document = history();
    document.attributes["state"]["metrics_size"] = directory_->metrics_size();
    document.attributes["state"]["rounds_done"] = std::int64_t{done_};
    document.attributes["state"]["rounds_total"] = std::int64_t{total_rounds_};
    put_state(document, state);
    directory_->publish_checkpoint(document);
    checkpoint_failure_.clear();
  } catch (const Error& failure) {
    if (failure.fault() != Fault::kBackend) {
      throw;
    }
    // The generations before are untouched, so a full disk costs progress, not the run.
    checkpoint_failure_ = failure.what();
    ++failed_checkpoints_;
    log::warn("checkpoint not written ({} so far): {}", failed_checkpoints_, failure.what());
  }
  if (!directory_->exists()) {
    throw BackendError("stat", ENOENT,
                       fmt::format("{}: the run's folder was removed or renamed while the job ran; "
                                   "what is computed from round {} on cannot be kept",
                                   directory_->path().string(), done_));
  }
  if (checkpoint_failure_.empty()) {
    try {
      directory_->publish_run_file(history());
    } catch (const Error& failure) {
      log::warn("run.h5 not written, the checkpoint holds the same: {}", failure.what());
    }
  }
  limit_.add_checkpoint(watch.seconds());
  since_checkpoint_.restart();
  round_.restart();
}

void RunRecorder::publish(const std::function<void(store::Document&)>& more) {
  store::Document document = history();
  more(document);
  document.attributes[kProvenance]["end_utc"] = utc_now();
  flush_metrics();
  directory_->publish_run_file(document);
}

void RunRecorder::take_status_of_last_start() {
  const auto status = nlohmann::json::parse(directory_->status(), nullptr, false);
  if (!status.is_object() || !status.contains("state") || !status["state"].is_string()) {
    return;
  }
  const std::string state = status["state"];
  if (state == "stopped" || state == "running") {
    const auto known = status.find("starts_without_round");
    earlier_starts_without_round_ =
        known != status.end() && known->is_number_integer() ? known->get<int>() : 0;
  }
}

int RunRecorder::starts_without_round(const std::string& state) const {
  if (done_ > done_at_start_) {
    return 0;
  }
  return earlier_starts_without_round_ + (state == "stopped" ? 1 : 0);
}

void RunRecorder::write_status(const std::string& state, int code) {
  // After "complete" everything is in run.h5; any other end lives on its checkpoint.
  if (state != "complete" && state != "running" && !checkpoint_failure_.empty()) {
    const int failed = exit_code(Fault::kBackend);
    try {
      put_status("failed", failed);
    } catch (const Error& failure) {
      log::warn("status.json: {}", failure.what());
    }
    throw BackendError("checkpoint", failed,
                       fmt::format("{} at round {}, but its checkpoint could not be written: {}. "
                                   "{}",
                                   state, done_, checkpoint_failure_,
                                   directory_->generation() > 0
                                       ? fmt::format("A new start goes on from checkpoint {}",
                                                     directory_->generation())
                                       : "There is none, so that a new start begins anew"));
  }
  if (state == "stopped" && starts_without_round(state) >= 2) {
    put_status("failed", exit_code(Fault::kInternal));
    throw Error(Fault::kInternal,
                fmt::format("stopped ({}) for the second time in a row without a new round since "
                            "the last restart, at round {} of {}: requeued again it would go on "
                            "like this for ever. Give each job more time than its start and one "
                            "round (or the evaluation at the end) take",
                            stop_reason(), done_, total_rounds_));
  }
  put_status(state, code);
}

void RunRecorder::put_status(const std::string& state, int code) {
  nlohmann::json status;
  status["state"] = state;
  status["exit_code"] = code;
  status["round"] = done_;
  status["total_rounds"] = total_rounds_;
  status["heartbeat_utc"] = utc_now();
  status["checkpoint"] = directory_->generation();
  status["failed_checkpoints"] = failed_checkpoints_;
  status["elapsed_seconds"] = watch_.seconds();
  if (done_ > done_at_start_) {
    status["eta_seconds"] = watch_.seconds() / (done_ - done_at_start_) * (total_rounds_ - done_);
  }
  status["start_utc"] = start_utc_;
  status["round_at_start"] = done_at_start_;
  status["starts_without_round"] = starts_without_round(state);
  if (const std::string reason = stop_reason(); state == "stopped" && !reason.empty()) {
    status["stopped_by"] = reason;
  }
  status["host"] = world_.host();
  status["pid"] = static_cast<int>(getpid());
  status["world_size"] = world_.size();
  if (const char* job = std::getenv("SLURM_JOB_ID")) {
    status["slurm_job_id"] = job;
  }
  directory_->write_status(status.dump(2) + "\n");
}

}  // namespace apo::cli
