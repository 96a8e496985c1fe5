#pragma once

/// @file
/// Inside the probe: what is counted while a statement is put to the test.

#include <string>
#include <utility>

#include "apo/methods/probe.hpp"

namespace apo::methods::probe {

class Check {
 public:
  /// @param guaranteed  false: violations are counted, not judged
  Check(std::string id, std::string statement, std::string tested_on, bool guaranteed = true);

  /// slack >= 0 up to `tolerance` times `scale`; worst is the smallest slack over its scale.
  void slack(double slack, double scale, double tolerance = 1e-12);
  /// ratio <= 1 up to `tolerance`; worst is the largest.
  void ratio(double ratio, double tolerance = 1e-9);
  /// difference <= tolerance; worst is the largest difference.
  void agreement(double difference, double tolerance);
  /// One yes-or-no case.
  void holds(bool yes);
  /// `count` cases with `violations` among them.
  void count(std::int64_t cases, std::int64_t violations);

  [[nodiscard]] ProbeCheck result() const;

 private:
  void worst(double value, bool is_worse, const char* what);

  ProbeCheck check_;
  bool guaranteed_;
};

}  // namespace apo::methods::probe
