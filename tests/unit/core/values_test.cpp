// Small values: errors, preferences, hashes, tables, durations.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/sha256.hpp"
#include "apo/core/simplex.hpp"
#include "apo/core/table.hpp"

namespace apo {
namespace {

TEST(Error, ExitCodesOfTheDesign) {
  EXPECT_EQ(exit_code(Fault::kConfig), 64);
  EXPECT_EQ(exit_code(Fault::kData), 65);
  EXPECT_EQ(exit_code(Fault::kDevice), 69);
  EXPECT_EQ(exit_code(Fault::kInternal), 70);
  EXPECT_EQ(exit_code(Fault::kBackend), 74);
  EXPECT_EQ(exit_code(Fault::kRequeue), 75);
}

TEST(Error, OnlyOurFaultShowsThePlace) {
  EXPECT_STREQ(Error(Fault::kData, "row 3 is empty").what(), "row 3 is empty");
  EXPECT_NE(std::string(Error(Fault::kInternal, "boom").what()).find("values_test.cpp:"),
            std::string::npos);
}

TEST(NearestWord, SuggestsOnlyWhatIsNear) {
  const std::vector<std::string> known = {"phase1.rounds", "phase2.rounds", "lora.rank"};
  EXPECT_EQ(nearest_word("phase1.round", known), "phase1.rounds");
  EXPECT_EQ(nearest_word("lora.rnak", known), "lora.rank");
  EXPECT_EQ(nearest_word("xyz", known), "");
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(NormalisedPreference, ScalesAndLifts) {
  const std::vector<double> p = normalised_preference(std::vector<double>{3.0, 1.0, 0.0}, "x");
  EXPECT_NEAR(p[0] + p[1] + p[2], 1.0, 1e-15);
  EXPECT_NEAR(p[0] / p[1], 3.0, 1e-12);
  EXPECT_GT(p[2], 0.0);
  EXPECT_NEAR(p[2], 1e-6, 1e-11);
}

TEST(NormalisedPreference, RefusesWhatIsNoPreference) {
  EXPECT_THROW((void)normalised_preference(std::vector<double>{-1.0, 2.0}, "x"), Error);
  EXPECT_THROW((void)normalised_preference(std::vector<double>{0.0, 0.0}, "x"), Error);
  EXPECT_THROW((void)normalised_preference(std::vector<double>{}, "x"), Error);
  EXPECT_THROW((void)normalised_preference(
                   std::vector<double>{std::numeric_limits<double>::quiet_NaN(), 1.0}, "x"),
               Error);
}

// FIPS 180-4 examples.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 parts;
  parts.update("a");
  parts.update("bc");
  EXPECT_EQ(parts.hex(), sha256_hex("abc"));
}

Table example() {
  Table table;
  table.integer("round", "rounds", "0-based");
  table.real("loss", "nat", "per objective", {2});
  table.text("note", "free text");
  table.push("round", std::int64_t{3});
  table.push("loss", std::vector<double>{0.5, -1.0});
  table.push("note", std::string("a\0b", 3));
  return table;
}

TEST(Table, PackAndUnpack) {
  const Table table = example();
  const Table back = unpack_table(pack(table));
  ASSERT_EQ(back.columns().size(), 3U);
  EXPECT_EQ(back.num_rows(), 1);
  EXPECT_EQ(back.find("loss")->row_shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(back.find("loss")->values, table.find("loss")->values);
  EXPECT_EQ(back.find("note")->values, table.find("note")->values);
  EXPECT_EQ(back.find("round")->units, "rounds");
}

TEST(Table, AppendAndCheck) {
  Table table = example();
  table.append(example());
  EXPECT_EQ(table.num_rows(), 2);
  EXPECT_EQ(table.find("loss")->num_rows(), 2);
  table.check();
  table.push("round", std::int64_t{4});
  EXPECT_THROW(table.check(), Error);
}

TEST(Table, RefusesWrongTypesAndNames) {
  Table table = example();
  EXPECT_THROW(table.push("loss", 1.0), Error);
  EXPECT_THROW(table.push("loss", std::vector<double>{1.0}), Error);
  EXPECT_THROW(table.push("nothing", 1.0), Error);
  EXPECT_THROW(table.real("round", "", ""), Error);
  Table other;
  other.integer("round", "", "");
  EXPECT_THROW(table.append(other), Error);
}

TEST(HumanDuration, Units) {
  EXPECT_EQ(human_duration(12.34), "12.3s");
  EXPECT_EQ(human_duration(291), "4m51s");
  EXPECT_EQ(human_duration(7380), "2h03m");
  EXPECT_EQ(human_duration(std::nan("")), "?");
}

}  // namespace
}  // namespace apo
