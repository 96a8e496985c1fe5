#include "apo/clustering/options.hpp"

#include <set>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::clustering {
namespace {

ClusteringOptions referring_to(const std::string& reference) {
  ClusteringOptions options;
  options.reference = reference;
  return options;
}

TEST(WarmRounds, ReadsTheReference) {
  EXPECT_EQ(warm_rounds({}), 0);
  EXPECT_EQ(warm_rounds(referring_to("initial")), 0);
  EXPECT_EQ(warm_rounds(referring_to("warm:1")), 1);
  EXPECT_EQ(warm_rounds(referring_to("warm:25")), 25);
}

TEST(WarmRounds, RefusesAnythingElse) {
  for (const char* text : {"", "warm", "warm:", "warm:0", "warm:-3", "warm:2.5", "warm:5x",
                           "warm: 5", "Warm:5", "initial:5", "warm:99999999999"}) {
    try {
      static_cast<void>(warm_rounds(referring_to(text)));
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kConfig) << text;
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos);
    }
  }
}

TEST(Options, EveryFieldHasARow) {
  ClusteringOptions options;
  FieldTable table;
  declare(table, options);
  std::set<std::string> keys;
  for (const Field& field : table.fields()) {
    keys.insert(field.key);
    EXPECT_EQ(field.get(), field.default_text) << field.key;
    EXPECT_FALSE(field.help.empty());
  }
  EXPECT_EQ(keys, (std::set<std::string>{"clustering.method", "clustering.budget",
                                         "clustering.linkage", "clustering.weights",
                                         "clustering.reference", "clustering.budget_policy",
                                         "clustering.allocation", "clustering.force_budget"}));
  const auto set = [&](const char* key, const char* text) { return table.find(key)->set(text); };
  EXPECT_EQ(set("clustering.method", "hc"), std::nullopt);
  EXPECT_EQ(set("clustering.linkage", "complete"), std::nullopt);
  EXPECT_EQ(set("clustering.weights", "equal"), std::nullopt);
  EXPECT_EQ(set("clustering.reference", "warm:5"), std::nullopt);
  EXPECT_EQ(set("clustering.allocation", "largest_remainder"), std::nullopt);
  EXPECT_EQ(set("clustering.force_budget", "true"), std::nullopt);
  EXPECT_EQ(options.method, "hc");
  EXPECT_EQ(options.linkage, "complete");
  EXPECT_EQ(options.weights, "equal");
  EXPECT_EQ(warm_rounds(options), 5);
  EXPECT_EQ(options.allocation, "largest_remainder");
  EXPECT_TRUE(options.force_budget);
  EXPECT_NE(set("clustering.linkage", "centroid"), std::nullopt);
  EXPECT_NE(set("clustering.budget", "0"), std::nullopt);
}

}  // namespace
}  // namespace apo::clustering
