#include "sweep_training.hpp"

#include <algorithm>
#include <utility>

#include "stop_signals.hpp"
#include "time_limit.hpp"

#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/clock.hpp"
#include "apo/core/log.hpp"

namespace apo::cli {
namespace {

constexpr double kSecondsBetweenLines = 10.0;

/// Between two slices the ranks agree on whether to stop.
constexpr int kPairsPerSliceAndRank = 16;

bool must_stop(const TimeLimit& limit, const store::CheckpointOptions& checkpoint) {
  if (limit.must_stop(seconds_of_process())) {
    request_stop("time limit " + checkpoint.max_walltime);
  }
  return stop_requested();
}

/// Keeps what the clusters of one Trainer measure, and their state, in their folders.
class BatchObserver final : public federation::RoundObserver {
 public:
  /// @param claims   by the trainer's cluster number
  /// @param folders  rank 0: of the claims; empty elsewhere
  BatchObserver(std::vector<Claim*> claims, std::vector<ClusterFolder*> folders,
                const std::vector<SweepCluster>& clusters,
                const store::CheckpointOptions& checkpoint, TimeLimit& limit, int total_rounds)
      : claims_(std::move(claims)),
        folders_(std::move(folders)),
        clusters_(clusters),
        checkpoint_(checkpoint),
        limit_(limit),
        total_rounds_(total_rounds) {}

  federation::RoundRequest request() override {
    federation::RoundRequest request;
    if (!folders_.empty()) {
      limit_.add_round(since_round_.seconds());
      since_round_.restart();
      request.checkpoint = checkpoint_.every_minutes > 0.0 &&
                           since_checkpoint_.seconds() >= 60.0 * checkpoint_.every_minutes;
    }
    request.stop = must_stop(limit_, checkpoint_);
    return request;
  }

  void on_round(const federation::RoundReport& report) override {
    Claim& claim = *claims_[static_cast<std::size_t>(report.cluster)];
    federation::RoundReport own = report;
    federation::renumber(own, 0);
    add_report(claim.reports, own);
  }

  void on_progress(int done, int total) override {
    done_ = done;
    const double elapsed = watch_.seconds();
    if (done_at_start_ < 0) {
      done_at_start_ = done - 1;
    }
    if (done != total && elapsed - last_line_ < kSecondsBetweenLines) {
      return;
    }
    last_line_ = elapsed;
    const double per_round = elapsed / std::max(1, done - done_at_start_);
    log::info("{} {} clusters, round {}/{} ({:.0f}%) | {:.2f} s/round | elapsed {} eta {}",
              utc_now(), claims_.size(), done, total, 100.0 * done / std::max(1, total), per_round,
              human_duration(elapsed), human_duration(per_round * (total - done)));
  }

  void on_checkpoint(const federation::TrainingState& state) override {
    const Stopwatch watch;
    for (std::size_t k = 0; k < folders_.size(); ++k) {
      const auto& group = clusters_[static_cast<std::size_t>(claims_[k]->cluster)].group;
      folders_[k]->publish_checkpoint(
          {federation::state_of_cluster(state, static_cast<int>(k), group), claims_[k]->reports});
      folders_[k]->write_status("running", done_, total_rounds_);
    }
    limit_.add_checkpoint(watch.seconds());
    since_checkpoint_.restart();
    since_round_.restart();
  }

 private:
  std::vector<Claim*> claims_;
  std::vector<ClusterFolder*> folders_;
  const std::vector<SweepCluster>& clusters_;
  const store::CheckpointOptions& checkpoint_;
  TimeLimit& limit_;
  int total_rounds_;
  int done_ = 0;
  int done_at_start_ = -1;
  double last_line_ = -1e9;
  Stopwatch watch_;
  Stopwatch since_round_;
  Stopwatch since_checkpoint_;
};

}  // namespace

SweepTraining::SweepTraining(comm::World& world, const methods::ExperimentInputs& inputs,
                             const methods::ExperimentOptions& options,
                             const store::CheckpointOptions& checkpoint,
                             const std::vector<SweepCluster>& clusters,
                             std::vector<ClusterFolder>& folders)
    : world_(world),
      inputs_(inputs),
      options_(options),
      checkpoint_(checkpoint),
      clusters_(clusters),
      folders_(folders),
      // The other ranks' clocks have no say.
      limit_(folders.empty() || checkpoint.max_walltime.empty()
                 ? 0.0
                 : parse_walltime("checkpoint.max_walltime", checkpoint.max_walltime)) {}

bool SweepTraining::should_stop() const { return must_stop(limit_, checkpoint_); }

federation::Outcome SweepTraining::run(std::vector<Claim> claims) {
  std::map<std::optional<federation::Progress>, std::vector<int>> by_progress;
  for (std::size_t k = 0; k < claims.size(); ++k) {
    std::optional<federation::Progress> progress;
    if (claims[k].state) {
      progress = federation::progress_of(*claims[k].state);
    }
    by_progress[progress].push_back(static_cast<int>(k));
  }
  std::vector<federation::TrainingGroup> groups;
  for (const Claim& claim : claims) {
    groups.push_back(clusters_[static_cast<std::size_t>(claim.cluster)].group);
  }
  for (const auto& [progress, wanted] : by_progress) {
    const bool modes_matter = options_.training.direction.beta_hysteresis > 1.0;
    const std::vector<std::vector<int>> parts = modes_matter
                                                    ? federation::disjoint_parts(groups, wanted)
                                                    : std::vector<std::vector<int>>{wanted};
    for (const std::vector<int>& part : parts) {
      std::vector<Claim*> together;
      for (const int k : part) {
        together.push_back(&claims[static_cast<std::size_t>(k)]);
      }
      if (run_together(std::move(together)) == federation::Outcome::kStopped) {
        return federation::Outcome::kStopped;
      }
    }
  }
  return federation::Outcome::kComplete;
}

federation::Outcome SweepTraining::run_together(std::vector<Claim*> claims) {
  std::vector<federation::TrainingGroup> groups;
  std::vector<federation::TrainingState> states;
  std::vector<ClusterFolder*> folders;
  for (Claim* claim : claims) {
    const auto c = static_cast<std::size_t>(claim->cluster);
    groups.push_back(clusters_[c].group);
    if (claim->state) {
      states.push_back(std::move(*claim->state));
    }
    if (!folders_.empty()) {
      folders.push_back(&folders_[c]);
    }
  }
  federation::Trainer trainer(world_, inputs_.partition, inputs_.objectives, options_.training,
                              std::move(groups));
  if (!states.empty()) {
    trainer.restore(federation::joined(states));
  }
  BatchObserver observer(claims, std::move(folders), clusters_, checkpoint_, limit_,
                         trainer.total_rounds());
  const Stopwatch watch;
  const federation::Outcome outcome = trainer.run(observer);
  seconds_training_ += watch.seconds();
  return outcome == federation::Outcome::kComplete ? evaluate_and_publish(trainer, claims)
                                                   : outcome;
}

std::vector<methods::EvaluationPair> SweepTraining::missing_pairs(
    const std::vector<Claim*>& claims) {
  std::vector<methods::EvaluationPair> pairs;
  std::vector<double> missing;  // rank 0 knows what there is already
  for (std::size_t k = 0; k < claims.size(); ++k) {
    const auto c = static_cast<std::size_t>(claims[k]->cluster);
    for (const ClientId client : clusters_[c].test_clients) {
      const bool known = claims[k]->known && claims[k]->known->covers({client});
      missing.push_back(known ? 0.0 : 1.0);
      pairs.push_back({static_cast<int>(k), client});
    }
  }
  if (!missing.empty()) {
    world_.all().broadcast(std::span<double>(missing), 0);
  }
  std::vector<methods::EvaluationPair> wanted;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (missing[i] != 0.0) {
      wanted.push_back(pairs[i]);
    }
  }
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const auto& a, const auto& b) { return a.client < b.client; });
  return wanted;
}

federation::Outcome SweepTraining::evaluate_and_publish(const federation::Trainer& trainer,
                                                        const std::vector<Claim*>& claims) {
  const Stopwatch watch;
  const std::vector<methods::EvaluationPair> wanted = missing_pairs(claims);
  log::info("evaluating {} pairs of a cluster and a test client ...", wanted.size());
  std::vector<std::vector<methods::PairResult>> found(claims.size());
  const auto slice = static_cast<std::ptrdiff_t>(kPairsPerSliceAndRank * world_.size());
  bool stop = false;
  for (auto begin = wanted.begin(); begin != wanted.end() && !stop;) {
    const auto end = wanted.end() - begin > slice ? begin + slice : wanted.end();
    for (methods::PairResult& pair :
         methods::evaluate_pairs(world_, inputs_, options_, trainer, {begin, end})) {
      found[static_cast<std::size_t>(pair.group)].push_back(std::move(pair));
    }
    begin = end;
    std::vector<double> asked = {begin != wanted.end() && should_stop() ? 1.0 : 0.0};
    world_.all().all_reduce(std::span<double>(asked), comm::Reduction::kMax);
    stop = asked[0] != 0.0;
  }
  seconds_evaluation_ += watch.seconds();
  world_.all().run_and_agree([&] {
    if (world_.rank() == 0) {
      publish(trainer, claims, std::move(found));
    }
  });
  return stop ? federation::Outcome::kStopped : federation::Outcome::kComplete;
}

void SweepTraining::publish(const federation::Trainer& trainer, const std::vector<Claim*>& claims,
                            std::vector<std::vector<methods::PairResult>> found) {
  for (std::size_t k = 0; k < claims.size(); ++k) {
    Claim& claim = *claims[k];
    ClusterFolder& folder = folders_[static_cast<std::size_t>(claim.cluster)];
    std::vector<std::vector<float>> parameters;
    ClusterResult result;
    if (claim.known) {
      result = std::move(*claim.known);
    } else {
      ++num_trained_;
      for (const auto& variant : trainer.state().finished) {
        parameters.push_back(variant[k]);
      }
      const federation::Placement& placement = trainer.placement();
      const auto team = static_cast<std::size_t>(placement.team_of_cluster[k]);
      result.team_ranks = placement.teams[team].num_ranks;
    }
    result.add(std::move(found[k]));
    folder.publish_result(result, claim.reports, parameters);
    folder.write_status("complete", trainer.total_rounds(), trainer.total_rounds());
    folder.unlock();
  }
}

}  // namespace apo::cli
