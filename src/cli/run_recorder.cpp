#include "run_recorder.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "run_tables.hpp"
#include "training_checkpoint.hpp"
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apo/comm/cluster_communicator.hpp"
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

/// The state as bytes, so that rank 0's checkpoint reaches the other ranks.
template <class Number>
void broadcast_numbers(comm::ClusterCommunicator& all, std::vector<Number>& values) {
  std::string bytes;
  if (all.rank() == 0) {
    bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
  }
  all.broadcast(bytes, 0);
  values.resize(bytes.size() / sizeof(Number));
  std::memcpy(values.data(), bytes.data(), bytes.size());
}

void broadcast(comm::ClusterCommunicator& all, std::vector<float>& values) {
  broadcast_numbers(all, values);
}
void broadcast(comm::ClusterCommunicator& all, std::vector<double>& values) {
  broadcast_numbers(all, values);
}
void broadcast(comm::ClusterCommunicator& all, std::vector<std::int8_t>& values) {
  broadcast_numbers(all, values);
}

void broadcast(comm::ClusterCommunicator& all, int& value) {
  std::vector<double> one = {static_cast<double>(value)};
  all.broadcast(std::span<double>(one), 0);
  value = static_cast<int>(one[0]);
}

template <class T>
void broadcast(comm::ClusterCommunicator& all, std::vector<T>& list) {
  int size = static_cast<int>(list.size());
  broadcast(all, size);
  list.resize(static_cast<std::size_t>(size));
  for (T& item : list) {
    broadcast(all, item);
  }
}

void broadcast(comm::ClusterCommunicator& all, federation::AdamWState& state) {
  int step = static_cast<int>(state.step);
  broadcast(all, step);
  state.step = step;
  broadcast(all, state.m);
  broadcast(all, state.v);
}

void broadcast(comm::ClusterCommunicator& all, federation::TrainingState& state) {
  for (int* value : {&state.phase1_rounds, &state.variant, &state.phase2_rounds}) {
    broadcast(all, *value);
  }
  broadcast(all, state.parameters);
  broadcast(all, state.memory);
  broadcast(all, state.was_uniform);
  broadcast(all, state.starts);
  broadcast(all, state.meta);
  broadcast(all, state.finished);
  int servers = static_cast<int>(state.server.size());
  broadcast(all, servers);
  state.server.resize(static_cast<std::size_t>(servers));
  for (federation::AdamWState& server : state.server) {
    broadcast(all, server);
  }
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
      total_rounds_(total_rounds) {}

std::optional<federation::TrainingState> RunRecorder::resume() {
  federation::TrainingState state;
  int found = 0;
  world_.all().run_and_agree([&] {
    if (directory_ == nullptr) {
      return;
    }
    const std::optional<store::Document> checkpoint = directory_->load_checkpoint();
    if (!checkpoint) {
      directory_->truncate_metrics(0);
      return;
    }
    state = get_state(*checkpoint);
    for (std::size_t phase = 0; phase < 2; ++phase) {
      steps_[phase] = checkpoint->get_table(phase_group(phase, "steps"));
      rounds_[phase] = checkpoint->get_table(phase_group(phase, "rounds"));
    }
    for (std::size_t k = 0; k < theory_.size(); ++k) {
      theory_[k] = checkpoint->get_table(kTheoryGroups[k]);
    }
    directory_->truncate_metrics(
        std::get<std::int64_t>(checkpoint->attribute("state", "metrics_size")));
    found = 1;
  });
  comm::ClusterCommunicator& all = world_.all();
  broadcast(all, found);
  if (found == 0) {
    return std::nullopt;
  }
  broadcast(all, state);
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
  federation::RoundReport row = report;
  if (row.mean_loss.empty()) {  // nobody delivered
    row.mean_loss.assign(static_cast<std::size_t>(rounds_[phase].find("mean_loss")->row_size()),
                         std::nan(""));
    log::warn(
        "phase {} cluster {} round {}: no participant had finite numbers; the adapter is kept",
        phase + 1, report.cluster, report.round);
  } else if (report.num_failed > 0) {
    log::warn(
        "phase {} cluster {} round {}: {} participants left out, their numbers were not finite",
        phase + 1, report.cluster, report.round, report.num_failed);
  }
  push(rounds_[phase], row);
  const std::array<const Table*, 3> theory = {&report.theory_round, &report.theory_clients,
                                              &report.theory_pairs};
  for (std::size_t k = 0; k < theory.size(); ++k) {
    if (theory[k]->num_rows() > 0) {  // rounds that are not monitored bring none
      theory_[k].append(*theory[k]);
    }
  }
  last_loss_ = row.mean_loss;
  directory_->append_metrics(metrics_line(row));
}

void RunRecorder::on_progress(int done, int total) {
  if (done_ == 0) {
    done_at_start_ = done - 1;
  }
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
  write_status("running", 0);
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
  store::Document document = history();
  document.attributes["state"]["metrics_size"] = directory_->metrics_size();
  put_state(document, state);
  try {
    directory_->publish_checkpoint(document);
    directory_->publish_run_file(history());
  } catch (const Error& failure) {
    // The generations before are untouched, so a full disk costs progress, not the run.
    ++failed_checkpoints_;
    log::warn("checkpoint not written ({} so far): {}", failed_checkpoints_, failure.what());
  }
}

void RunRecorder::publish(const std::function<void(store::Document&)>& more) {
  store::Document document = history();
  more(document);
  directory_->publish_run_file(document);
}

void RunRecorder::write_status(const std::string& state, int code) {
  nlohmann::json status;
  status["state"] = state;
  status["exit_code"] = code;
  status["round"] = done_;
  status["total_rounds"] = total_rounds_;
  status["heartbeat_utc"] = utc_now();
  status["checkpoint"] = directory_->generation();
  status["elapsed_seconds"] = watch_.seconds();
  status["host"] = world_.host();
  status["pid"] = static_cast<int>(getpid());
  directory_->write_status(status.dump(2) + "\n");
}

}  // namespace apo::cli
