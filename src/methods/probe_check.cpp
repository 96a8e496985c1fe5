#include "probe_check.hpp"

#include <cmath>

namespace apo::methods::probe {

Check::Check(std::string id, std::string statement, std::string tested_on, bool guaranteed)
    : guaranteed_(guaranteed) {
  check_.id = std::move(id);
  check_.statement = std::move(statement);
  check_.tested_on = std::move(tested_on);
}

void Check::worst(double value, bool is_worse, const char* what) {
  check_.worst_of = what;
  if (std::isnan(check_.worst) || is_worse) {
    check_.worst = value;
  }
}

void Check::slack(double slack, double scale, double tolerance) {
  const double relative = scale > 0.0 ? slack / scale : slack;
  holds(relative >= -tolerance);  // NaN is a violation: a slack that should exist
  worst(relative, relative < check_.worst, "slack / scale");
}

void Check::ratio(double ratio, double tolerance) {
  holds(ratio <= 1.0 + tolerance);
  worst(ratio, ratio > check_.worst, "ratio");
}

void Check::agreement(double difference, double tolerance) {
  holds(difference <= tolerance);
  worst(difference, difference > check_.worst, "difference");
}

void Check::holds(bool yes) { count(1, yes ? 0 : 1); }

void Check::count(std::int64_t cases, std::int64_t violations) {
  check_.cases += cases;
  check_.violations += violations;
}

ProbeCheck Check::result() const {
  ProbeCheck result = check_;
  if (guaranteed_) {
    // A statement that no case put to the test has not been confirmed.
    result.verdict = result.violations == 0 && result.cases > 0 ? Verdict::kPass : Verdict::kFail;
  }
  return result;
}

}  // namespace apo::methods::probe
