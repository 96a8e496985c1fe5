#include <optional>

#include "local_round.hpp"

#include "apo/core/error.hpp"
#include "apo/federation/round_scheme.hpp"
#include "apo/federation/theory_monitor.hpp"

namespace apo::federation {
namespace {

class LocalStepsScheme final : public RoundScheme {
 public:
  explicit LocalStepsScheme(RoundResources resources) : resources_(std::move(resources)) {}

  [[nodiscard]] std::int64_t num_parameters() const override {
    return resources_.objectives.num_parameters();
  }

  [[nodiscard]] std::vector<float> initial_parameters(
      std::uint64_t /*cluster_key*/) const override {
    return resources_.objectives.initial_parameters(resources_.seed);
  }

  [[nodiscard]] RoundReport run(const RoundPlan& plan, std::vector<float>& parameters,
                                std::vector<double>& /*memory*/) override {
    const Phase1Options& phase1 = resources_.phase1;
    LocalOptions local;
    local.learning_rate = plan.learning_rate;
    local.steps = phase1.local_steps;
    local.batch_pairs = phase1.batch_size * phase1.gradient_accumulation;
    local.optimizer = phase1.optimizer;
    local.clip = phase1.gradient_clip;

    const bool audited = monitors() && resources_.monitor.audit_every > 0 &&
                         plan.round % resources_.monitor.audit_every == 0;
    RoundReport audit_report;
    if (audited) {
      audit(plan, resources_, setting(plan, true), parameters, audit_report);
    }
    std::optional<TheoryMonitor> monitor;
    if (monitors() && fits(plan)) {
      monitor.emplace(setting(plan, false), resources_.objectives.num_objectives(),
                      num_parameters());
    }
    LocalRound round = run_local_round(
        plan, resources_, local, parameters,
        [](const data::Client& client) { return client.train; }, monitor ? &*monitor : nullptr);
    if (audited) {
      round.report.theory_round.append(audit_report.theory_round);
      round.report.theory_clients.append(audit_report.theory_clients);
      round.report.theory_pairs.append(audit_report.theory_pairs);
    }
    if (!round.delivered) {
      return std::move(round.report);
    }
    const std::vector<float> before = parameters;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      parameters[k] = static_cast<float>(static_cast<double>(parameters[k]) +
                                         phase1.server_learning_rate * round.update[k]);
    }
    finish_report(before, parameters, round.report);
    return std::move(round.report);
  }

 private:
  /// Theory is about directions from a Gram matrix; a fixed weighting has none (its gradients are
  /// not computed one by one).
  [[nodiscard]] bool monitors() const {
    return resources_.monitor.theory && !resources_.solver.weighs_by_preference();
  }

  /// Whether the participants' gradients may stay in memory. Asked for one rank that has them all,
  /// so that what is measured does not depend on the number of ranks.
  [[nodiscard]] bool fits(const RoundPlan& plan) const {
    const double bytes = static_cast<double>(plan.participants.size()) *
                         resources_.objectives.num_objectives() *
                         static_cast<double>(num_parameters()) * sizeof(float);
    return bytes <= static_cast<double>(resources_.monitor.memory_mib) * 1048576.0;
  }

  [[nodiscard]] TheorySetting setting(const RoundPlan& plan, bool audited) const {
    TheorySetting result;
    result.cluster = plan.cluster;
    result.start_round = plan.start_round;
    result.round = plan.round;
    result.audit = audited;
    result.learning_rate = plan.learning_rate;
    result.local_steps = resources_.phase1.local_steps;
    result.smoothness = resources_.monitor.smoothness > 0.0 ? resources_.monitor.smoothness
                                                            : resources_.objectives.smoothness();
    result.gram_normalisation = resources_.direction.gram_normalisation;
    // Lemma 8 is about the minimiser on the gradients as they are.
    if (resources_.direction.solver == "firm" &&
        resources_.direction.gradient_normalisation == "none") {
      result.firm_beta = resources_.direction.firm_beta;
      result.firm_preference = resources_.direction.firm_preference;
    }
    return result;
  }

  RoundResources resources_;
};

}  // namespace

std::unique_ptr<RoundScheme> make_local_steps_scheme(RoundResources resources) {
  return std::make_unique<LocalStepsScheme>(std::move(resources));
}

}  // namespace apo::federation
