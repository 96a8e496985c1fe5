#include "apo/methods/probe.hpp"

#include <algorithm>
#include <cmath>

#include "probe_parts.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::methods {

namespace probe {

CounterRng stream(const ProbeOptions& options, std::uint64_t part, std::uint64_t index) {
  return CounterRng({options.seed, Purpose::kMonteCarlo, part, index});
}

int scaled(const ProbeOptions& options, double share) {
  return std::max(1, static_cast<int>(std::lround(share * options.cases)));
}

}  // namespace probe

const ProbeCheck* ProbeReport::first_failure() const {
  const auto it = std::find_if(checks.begin(), checks.end(), [](const ProbeCheck& check) {
    return check.verdict == Verdict::kFail;
  });
  return it == checks.end() ? nullptr : &*it;
}

ProbeReport run_probe(const ProbeOptions& options) {
  expects(options.cases >= 1, "run_probe: expected at least one case");
  ProbeReport report;
  report.options = options;
  probe::check_balancing(options, report);
  probe::check_descent(options, report);
  probe::check_trajectory(options, report);
  probe::check_common_losses(options, report);
  probe::check_adaptation(options, report);
  probe::check_firm(options, report);
  probe::check_statements(options, report);
  probe::check_examples(options, report);
  return report;
}

}  // namespace apo::methods
