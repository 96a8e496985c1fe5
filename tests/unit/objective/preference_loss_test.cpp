#include "preference_loss.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::objective {
namespace {

/// h = 7 summed, 0.3 averaged (llm.md 6.4).
const PairLogProbs kPair{.chosen = -40.0,
                         .rejected = -55.0,
                         .reference_chosen = -42.0,
                         .reference_rejected = -50.0,
                         .chosen_length = 20.0,
                         .rejected_length = 25.0};

TEST(PreferenceLoss, PublishedVectors) {
  const PairLoss dpo = PreferenceLoss({.loss = "dpo", .beta = 0.1})(kPair);
  EXPECT_NEAR(dpo.margin, 7.0, 1e-12);
  EXPECT_NEAR(dpo.loss, 0.4031860489, 1e-10);
  EXPECT_NEAR(dpo.d_chosen, -0.0331812228, 1e-10);

  const PairLoss summed = PreferenceLoss({.loss = "ipo", .beta = 0.1})(kPair);
  EXPECT_NEAR(summed.loss, 4.0, 1e-12);

  const PairLoss averaged =
      PreferenceLoss({.loss = "ipo", .beta = 0.1, .average_log_probs = true})(kPair);
  EXPECT_NEAR(averaged.margin, 0.3, 1e-12);
  EXPECT_NEAR(averaged.loss, 22.09, 1e-12);

  const PairLoss sft = PreferenceLoss({.loss = "sft"})(kPair);
  EXPECT_NEAR(sft.loss, 2.0, 1e-12);
  EXPECT_TRUE(std::isnan(sft.margin));
}

TEST(PreferenceLoss, DerivativesEqualFiniteDifferences) {
  for (const char* kind : {"dpo", "ipo", "sft"}) {
    for (const bool average : {false, true}) {
      const double nll = std::string(kind) == "sft" ? 0.0 : 0.7;
      const PreferenceLoss loss(
          {.loss = kind, .beta = 0.3, .average_log_probs = average, .nll_weight = nll});
      const PairLoss at = loss(kPair);
      const double step = 1e-4;
      PairLogProbs high = kPair;
      PairLogProbs low = kPair;
      high.chosen += step;
      low.chosen -= step;
      EXPECT_NEAR((loss(high).loss - loss(low).loss) / (2.0 * step), at.d_chosen, 1e-8) << kind;
      high = low = kPair;
      high.rejected += step;
      low.rejected -= step;
      EXPECT_NEAR((loss(high).loss - loss(low).loss) / (2.0 * step), at.d_rejected, 1e-8) << kind;
    }
  }
}

TEST(PreferenceLoss, RefusesAnNllWeightBesideSft) {
  try {
    (void)PreferenceLoss({.loss = "sft", .nll_weight = 0.5});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kConfig);
    EXPECT_NE(std::string(error.what()).find("dpo.nll_weight is 0.5, expected 0"),
              std::string::npos);
  }
  EXPECT_THROW((void)PreferenceLoss({.loss = "kto"}), Error);
}

}  // namespace
}  // namespace apo::objective
