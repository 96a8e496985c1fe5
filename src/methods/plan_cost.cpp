#include <algorithm>
#include <numeric>

#include "plan_parts.hpp"

#include "apo/methods/plan.hpp"

namespace apo::methods {
namespace {

// A file that is published costs its hash, its way to the disk, and an fsync of file and folder
// (spec operations.md 1.4: 0.7 s for 100 MB, a few milliseconds for the smallest).
constexpr double kSecondsPerFile = 0.01;
constexpr double kSecondsPerByte = 7e-9;

/// Groups, headers and chunk indices of the run file, per data set.
constexpr double kDatasetOverhead = 3300.0;
/// The pair table takes so many rows of a round at most (federation's theory monitor).
constexpr double kPairRows = 256.0;
/// Half a chunk (of 256 KiB) is empty at the end of a long column; short ones are one chunk.
constexpr double kHalfChunk = 131072.0;
constexpr double kMostEmpty = 0.12;  ///< share of a column of a few chunks
/// One line of metrics.jsonl.
constexpr double kMetricsLine = 560.0;

std::int64_t count_of(const WorkPlan& work, const std::string& phase,
                      std::int64_t PhaseCount::*field) {
  for (const PhaseCount& count : work.phases) {
    if (count.name == phase) {
      return count.*field;
    }
  }
  return 0;
}

double pairs_of(double n, double limit) { return std::min(limit, n * (n - 1.0) / 2.0); }

}  // namespace

double row_bytes(const Table& table, double text_bytes) {
  double bytes = 0.0;
  for (const Column& column : table.columns()) {
    const bool text = std::holds_alternative<std::vector<std::string>>(column.values);
    bytes += text ? text_bytes : static_cast<double>(sizeof(double) * column.row_size());
  }
  return bytes;
}

DiskPlan plan_disk(const PlanInputs& inputs, const WorkPlan& work, const RowBytes& rows) {
  const federation::TrainingOptions& training = inputs.options.training;
  const auto b = static_cast<double>(inputs.groups.size());
  const double variants = plan::num_variants(inputs);

  double phase1 = 0.0;  // one round of all clusters
  double phase2 = 0.0;
  double audit = 0.0;
  for (const auto& group : inputs.groups) {
    const auto members = static_cast<double>(group.size());
    const double sampled =
        std::min(members, static_cast<double>(training.phase1.clients_per_round));
    phase1 += rows.round + sampled * training.phase1.local_steps * rows.step;
    if (work.keeps_gradients) {
      phase1 += rows.theory_round + sampled * rows.theory_client +
                pairs_of(sampled, kPairRows) * rows.theory_pair;
    }
    phase2 +=
        rows.round + std::min(members, static_cast<double>(training.phase2.clients_per_round)) *
                         training.phase2.inner_steps * rows.step;
    audit += rows.theory_round + members * rows.theory_client +
             pairs_of(members, kPairRows) * rows.theory_pair;
  }
  const double meta_rounds = variants * training.phase2.rounds;
  const double stages = (inputs.traits.trains ? 1.0 : 0.0) + (inputs.traits.adapts ? 1.0 : 0.0);
  const double tested = static_cast<double>(inputs.test_clients.size());
  double responses = 0.0;
  for (const ClientId id : inputs.test_clients) {
    responses += static_cast<double>(inputs.clients[id.index()].num_prompts) *
                 inputs.options.evaluate.samples_per_prompt;
  }

  DiskPlan disk;
  disk.history_bytes_per_round = phase1;
  disk.history_bytes = training.phase1.rounds * phase1 + meta_rounds * phase2 +
                       work.num_audits * audit +
                       static_cast<double>(inputs.clients.size()) * rows.client;
  const double adaptation =
      static_cast<double>(count_of(work, "adaptation", &PhaseCount::steps)) * rows.step;
  const double evaluation = tested * (1.0 + variants * stages) * rows.evaluation +
                            variants * stages * responses * rows.response;
  const double overhead = rows.num_columns * kDatasetOverhead +
                          std::min(kMostEmpty * disk.history_bytes, rows.num_columns * kHalfChunk);
  disk.run_file_bytes = disk.history_bytes + adaptation + evaluation + overhead;
  // The largest state: the last variant of Phase II under way.
  const double copies =
      1.0 + variants +
      (training.phase2.rounds > 0 ? 1.0 + (training.phase2.server_optimizer == "adamw" ? 2.0 : 0.0)
                                  : 0.0) +
      std::max(0.0, variants - 1.0);
  const double vectors = b * static_cast<double>(inputs.scheme_parameters) * sizeof(float);
  disk.state_bytes = copies * vectors + 8.0 * static_cast<double>(inputs.clients.size());
  disk.checkpoint_bytes = disk.history_bytes + disk.state_bytes + overhead;
  disk.adapter_bytes = inputs.traits.trains ? vectors : 0.0;
  const double lines = kMetricsLine * b * (training.phase1.rounds + meta_rounds);
  disk.total_bytes = (inputs.checkpoints_kept + 1.0) * disk.checkpoint_bytes +
                     2.0 * disk.run_file_bytes + disk.adapter_bytes + lines;
  return disk;
}

std::vector<TimePart> plan_time(const WorkPlan& work, const UnitSeconds& unit,
                                double checkpoint_bytes) {
  std::vector<TimePart> parts = {{"start", unit.start}};
  for (const char* name : {"warm-up", "reference", "audits", "phase1", "phase2", "evaluation"}) {
    const auto found = work.stages.find(name);
    if (found == work.stages.end()) {
      continue;
    }
    const StageWork& stage = found->second;
    const bool scheme = found->first == "phase1";
    parts.push_back(
        {name, stage.reference_tokens * unit.reference_token +
                   stage.forward_tokens * unit.forward_token +
                   stage.gradient_work * unit.gradient_work + stage.responses * unit.response +
                   stage.cluster_rounds * unit.cluster_round + stage.evaluations * unit.evaluation +
                   (scheme ? stage.client_rounds * unit.client_round : 0.0)});
  }
  parts.push_back({"checkpoints", work.num_checkpoints * (2.0 * kSecondsPerFile +
                                                          checkpoint_bytes * kSecondsPerByte)});
  return parts;
}

double total_seconds(std::span<const TimePart> parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0,
                         [](double sum, const TimePart& part) { return sum + part.seconds; });
}

}  // namespace apo::methods
