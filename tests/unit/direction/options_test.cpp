#include "apo/direction/options.hpp"

#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "apo/direction/direction_solver.hpp"

namespace apo::direction {
namespace {

TEST(DirectionOptions, EveryFieldHasARow) {
  DirectionOptions options;
  FieldTable table;
  declare(table, options);
  // A value that is not the default for each key, and where it lands.
  const std::map<std::string, std::string> values{{"solver", "epo"},
                                                  {"beta_tolerance", "0.25"},
                                                  {"beta_noise_factor", "2"},
                                                  {"beta_hysteresis", "4"},
                                                  {"bottleneck_tolerance", "0.1"},
                                                  {"ascent_tolerance", "0.125"},
                                                  {"loss_floor", "0.5"},
                                                  {"uniform_guard", "epo_restricted"},
                                                  {"lp_tie", "lexicographic"},
                                                  {"lp_regulariser", "0.75"},
                                                  {"epo_mode", "relaxed"},
                                                  {"gradient_normalisation", "loss+"},
                                                  {"mix_floor", "0.375"},
                                                  {"firm_beta", "0.0625"},
                                                  {"firm_preference", "paper"},
                                                  {"gram_normalisation", "mean_diagonal"},
                                                  {"cagrad_radius", "0.875"},
                                                  {"chebyshev_smoothing", "0.0125"}};
  std::set<std::string> declared;
  for (const Field& field : table.fields()) {
    ASSERT_EQ(field.key.rfind("direction.", 0), 0U) << field.key;
    const std::string name = field.key.substr(10);
    declared.insert(name);
    ASSERT_TRUE(values.contains(name)) << name;
    EXPECT_NE(field.default_text, values.at(name)) << name;
    EXPECT_FALSE(field.help.empty());
    EXPECT_EQ(field.set(values.at(name)), std::nullopt) << name;
    EXPECT_EQ(field.get(), values.at(name));
  }
  EXPECT_EQ(declared.size(), values.size());
  EXPECT_EQ(options.solver, "epo");
  EXPECT_EQ(options.beta_tolerance, .25);
  EXPECT_EQ(options.beta_noise_factor, 2);
  EXPECT_EQ(options.beta_hysteresis, 4);
  EXPECT_EQ(options.bottleneck_tolerance, .1);
  EXPECT_EQ(options.ascent_tolerance, .125);
  EXPECT_EQ(options.loss_floor, .5);
  EXPECT_EQ(options.uniform_guard, "epo_restricted");
  EXPECT_EQ(options.lp_tie, "lexicographic");
  EXPECT_EQ(options.lp_regulariser, .75);
  EXPECT_EQ(options.epo_mode, "relaxed");
  EXPECT_EQ(options.gradient_normalisation, "loss+");
  EXPECT_EQ(options.mix_floor, .375);
  EXPECT_EQ(options.firm_beta, .0625);
  EXPECT_EQ(options.firm_preference, "paper");
  EXPECT_EQ(options.gram_normalisation, "mean_diagonal");
  EXPECT_EQ(options.cagrad_radius, .875);
  EXPECT_EQ(options.chebyshev_smoothing, .0125);
}

TEST(DirectionOptions, ValuesOutOfRangeAreRefused) {
  DirectionOptions options;
  FieldTable table;
  declare(table, options);
  const auto refused = [&table](const std::string& key, const std::string& value) {
    const Field* field = table.find("direction." + key);
    return field != nullptr && field->set(value).has_value();
  };
  EXPECT_TRUE(refused("solver", "guess"));
  EXPECT_TRUE(refused("beta_tolerance", "-1e-4"));
  EXPECT_TRUE(refused("beta_noise_factor", "-1"));
  EXPECT_TRUE(refused("beta_hysteresis", "0.5"));
  EXPECT_TRUE(refused("loss_floor", "0"));
  EXPECT_TRUE(refused("uniform_guard", "epo"));
  EXPECT_TRUE(refused("lp_tie", "random"));
  EXPECT_TRUE(refused("lp_regulariser", "-0.1"));
  EXPECT_TRUE(refused("mix_floor", "1.1"));
  EXPECT_TRUE(refused("gradient_normalisation", "l1"));
  EXPECT_TRUE(refused("firm_beta", "-0.01"));
  EXPECT_TRUE(refused("chebyshev_smoothing", "0"));
}

/// The choices as the table shows them: "a|b|c".
std::vector<std::string> choices(const std::string& type) {
  std::vector<std::string> result{""};
  for (const char c : type) {
    if (c == '|') {
      result.emplace_back();
    } else {
      result.back() += c;
    }
  }
  return result;
}

TEST(DirectionOptions, EveryNamedSolverIsMadeAndSolves) {
  DirectionOptions options;
  FieldTable table;
  declare(table, options);
  const auto names = choices(table.find("direction.solver")->type);
  EXPECT_EQ(names.size(), 13U);
  const std::vector<double> loss{.6, .4, .9};
  const std::vector<double> preference{.5, .3, .2};
  const std::vector<double> gram{1.25, -.5, .5, -.5, 1.25, -.5, .5, -.5, 1.25};
  for (const std::string& name : names) {
    options.solver = name;
    for (const char* normalisation : {"none", "l2", "loss", "loss+"}) {
      options.gradient_normalisation = normalisation;
      const Direction found = make_solver(options)->solve({loss, gram, preference});
      ASSERT_EQ(found.weight.size(), 3U) << name;
      ASSERT_EQ(found.mu.size(), 3U) << name;
      double squared = 0.0;
      for (std::size_t k = 0; k < 9; ++k) {
        squared += found.weight[k / 3] * gram[k] * found.weight[k % 3];
      }
      EXPECT_NEAR(found.direction_norm, std::sqrt(squared), 1e-12) << name;
      EXPECT_GT(found.direction_norm, 0.0) << name;
    }
  }
}

}  // namespace
}  // namespace apo::direction
