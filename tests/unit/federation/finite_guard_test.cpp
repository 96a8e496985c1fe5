#include "apo/federation/finite_guard.hpp"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::federation {
namespace {

RoundReport round(int number, int cluster, int num_failed) {
  RoundReport report;
  report.round = number;
  report.cluster = cluster;
  report.participants = {17, 20};
  report.num_failed = num_failed;
  for (int i = 0; i < 2; ++i) {
    StepRecord step;
    step.client = report.participants[static_cast<std::size_t>(i)];
    step.loss = {0.5, i < num_failed ? std::numeric_limits<double>::quiet_NaN() : 0.25};
    step.finite = i >= num_failed;
    report.steps.push_back(step);
  }
  return report;
}

/// Text of the error with fault kData; empty when there is none.
std::string refusal(FiniteGuard& guard, const RoundReport& report) {
  try {
    guard.check(report);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kData);
    return error.what();
  }
  return "";
}

TEST(FiniteGuard, ParticipantsThatFailNowAndThenAreNoReasonToStop) {
  FiniteGuard guard;
  for (int r = 0; r < 100; ++r) {
    EXPECT_EQ(refusal(guard, round(r, 0, 1)), "");
    EXPECT_EQ(refusal(guard, round(r, 1, r % 3 == 2 ? 0 : 2)), "") << r;  // two empty in a row
  }
}

TEST(FiniteGuard, ThreeEmptyRoundsOfOneClusterEndTheTraining) {
  FiniteGuard guard;
  EXPECT_EQ(refusal(guard, round(5, 3, 2)), "");
  EXPECT_EQ(refusal(guard, round(5, 4, 2)), "");
  EXPECT_EQ(refusal(guard, round(6, 3, 2)), "");
  EXPECT_EQ(refusal(guard, round(6, 4, 0)), "");
  EXPECT_EQ(refusal(guard, round(7, 3, 2)),
            "phase1 round 7 cluster 3: no participant had finite losses and gradients in 3 rounds "
            "in a row; clients of this round: 17, 20 (first: client 17 step 0, losses 0.5, nan)");
}

TEST(FiniteGuard, ParametersThatAreNotFiniteEndItAtOnce) {
  for (const double norm :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    FiniteGuard guard;
    RoundReport report = round(9, 2, 0);
    report.phase = Phase::kTwo;
    report.update_norm = norm;
    const std::string text = refusal(guard, report);
    EXPECT_NE(text.find("phase2 round 9 cluster 2: the parameters are not finite"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace apo::federation
