#include "apo/federation/finite_guard.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"
#include "apo/federation/round_activity.hpp"

namespace apo::federation {
namespace {

/// "client 17 step 0: losses nan, 0.693"; empty when no step is on record.
std::string first_failure(const RoundReport& report) {
  const auto failed = std::find_if(report.steps.begin(), report.steps.end(),
                                   [](const StepRecord& step) { return !step.finite; });
  return failed == report.steps.end()
             ? std::string()
             : fmt::format(" (first: client {} step {}, losses {:.4g})", failed->client,
                           failed->step, fmt::join(failed->loss, ", "));
}

[[noreturn]] void end_training(const RoundReport& report, const std::string& reason) {
  comm::failure_is_described();
  throw Error(Fault::kData, fmt::format("{} round {} cluster {}: {}", phase_name(report.phase),
                                        report.round, report.cluster, reason));
}

}  // namespace

void FiniteGuard::check(const RoundReport& report) {
  if (!std::isfinite(report.update_norm)) {
    end_training(report,
                 fmt::format("the parameters are not finite after this round: training has "
                             "diverged; a smaller learning rate is needed ({:.3g} in this round)",
                             report.learning_rate));
  }
  const auto num_participants = static_cast<int>(report.participants.size());
  int& empty = empty_rounds_[report.cluster];
  if (num_participants == 0 || report.num_failed < num_participants) {
    empty = 0;
    return;
  }
  if (++empty == kMaxEmptyRounds) {
    end_training(report,
                 fmt::format("no participant had finite losses and gradients in {} rounds in a "
                             "row; clients of this round: {}{}",
                             empty, fmt::join(report.participants, ", "), first_failure(report)));
  }
}

}  // namespace apo::federation
