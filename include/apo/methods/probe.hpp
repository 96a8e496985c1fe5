#pragma once

/// @file
/// `apo probe`: the theory monitors put to the test on analytic tasks, where every constant is
/// known (spec algorithms.md, sections 1.5, 3.4, 5 and 10.7). Float64, explicit vectors; no torch.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace apo::methods {

struct ProbeOptions {
  std::uint64_t seed = 1;
  int cases = 1000;  ///< scale: rounds per family of problems, other checks in proportion
  // What the monitors are told, over the truth. Anything but 1 plants a fault that must be found.
  double smoothness_factor = 1.0;  ///< of L_0
  double deviation_factor = 1.0;   ///< of Delta
  double noise_factor = 1.0;       ///< of sigma_0^2 in Theorem 3.4
};

enum class Verdict {
  kPass,      ///< a guaranteed statement that held in every case
  kFail,      ///< ... that was violated, or was never put to the test
  kMeasured,  ///< a statement that is not guaranteed: how often it failed
};

/// One statement on many cases.
struct ProbeCheck {
  std::string id;         ///< "T6"
  std::string statement;  ///< with the paper's equation
  std::string tested_on;
  std::int64_t cases = 0;  ///< those in which the statement's premise held
  std::int64_t violations = 0;
  double worst = std::numeric_limits<double>::quiet_NaN();
  std::string
      worst_of;  ///< what `worst` is: "slack / scale", "ratio"; empty: a yes-or-no statement
  Verdict verdict = Verdict::kMeasured;
};

/// Numbers that belong beside the checks: confusion tables, constants, frequencies.
struct ProbeTable {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

struct ProbeReport {
  ProbeOptions options;
  std::vector<ProbeCheck> checks;
  std::vector<ProbeTable> tables;

  /// The first check that failed; null when every guaranteed statement held.
  [[nodiscard]] const ProbeCheck* first_failure() const;
};

/// Runs all checks: a pure function of the options.
/// @throws Error(kInternal)  cases < 1
[[nodiscard]] ProbeReport run_probe(const ProbeOptions& options);

[[nodiscard]] std::string verdict_name(Verdict verdict);  ///< "pass", "FAIL", "measured"
/// One line: "T6 (56) ...: 3 of 1200 cases violated, worst slack / scale -1.2e-03".
[[nodiscard]] std::string failure_line(const ProbeCheck& check);

enum class ProbeFormat { kText, kMarkdown, kJson };
[[nodiscard]] std::string format_report(const ProbeReport& report, ProbeFormat format);

}  // namespace apo::methods
