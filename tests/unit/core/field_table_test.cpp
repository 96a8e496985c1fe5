#include "apo/core/field_table.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo {
namespace {

std::string problem(const FieldTable& table, const std::string& key, std::string_view text) {
  return table.find(key)->set(text).value_or("");
}

TEST(FieldTable, IntegerStoresAndRefuses) {
  int rank = 8;
  FieldTable table;
  table.integer("lora.rank", rank, {1, 512}, "", "rank");

  EXPECT_EQ(table.find("lora.rank")->default_text, "8");
  EXPECT_EQ(table.find("lora.rank")->range, "[1, 512]");
  EXPECT_EQ(problem(table, "lora.rank", " 16 "), "");
  EXPECT_EQ(rank, 16);
  EXPECT_EQ(problem(table, "lora.rank", "x"), "expected an integer in [1, 512], found 'x'");
  EXPECT_EQ(problem(table, "lora.rank", "513"), "expected an integer in [1, 512], found '513'");
  EXPECT_EQ(problem(table, "lora.rank", "0"), "expected an integer in [1, 512], found '0'");
  EXPECT_EQ(problem(table, "lora.rank", "8.0"), "expected an integer in [1, 512], found '8.0'");
  EXPECT_EQ(problem(table, "lora.rank", "8 9"), "expected an integer in [1, 512], found '8 9'");
  EXPECT_EQ(problem(table, "lora.rank", ""), "expected an integer in [1, 512], found nothing");
  EXPECT_EQ(rank, 16) << "a refused value must not be stored";
}

TEST(FieldTable, IntegerBeyondIntIsRefusedNotWrapped) {
  int value = 1;
  FieldTable table;
  table.integer("a.b", value, {}, "", "");
  EXPECT_NE(problem(table, "a.b", "4294967297"), "");
  EXPECT_NE(problem(table, "a.b", "99999999999999999999"), "");
  EXPECT_EQ(value, 1);
}

TEST(FieldTable, SeedHoldsAll64Bits) {
  std::optional<std::uint64_t> seed;
  FieldTable table;
  table.unsigned_required("runtime.seed", seed, "");
  EXPECT_TRUE(table.find("runtime.seed")->required);
  EXPECT_EQ(table.find("runtime.seed")->get(), "");
  EXPECT_EQ(problem(table, "runtime.seed", "18446744073709551615"), "");
  EXPECT_EQ(seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(table.find("runtime.seed")->get(), "18446744073709551615");
  EXPECT_EQ(problem(table, "runtime.seed", "-1"), "expected an integer in [0, 2^64), found '-1'");
  EXPECT_NE(problem(table, "runtime.seed", "18446744073709551616"), "");
}

TEST(FieldTable, RealRangeEnds) {
  double rate = 5e-5;
  FieldTable table;
  table.real("phase1.learning_rate", rate, {0.0, 1.0, true}, "", "");
  const std::string key = "phase1.learning_rate";

  EXPECT_EQ(table.find(key)->range, "(0, 1]");
  EXPECT_EQ(problem(table, key, "1"), "");
  EXPECT_EQ(problem(table, key, "0"), "expected a real number in (0, 1], found '0'");
  EXPECT_NE(problem(table, key, "1.0000001"), "");
  EXPECT_NE(problem(table, key, "nan"), "");
  EXPECT_NE(problem(table, key, "inf"), "");
  EXPECT_NE(problem(table, key, "1e-400"), "") << "underflow would silently become 0";
  EXPECT_NE(problem(table, key, "0,5"), "");
  EXPECT_EQ(rate, 1.0);
}

TEST(FieldTable, RealsPrintSoThatTheyParseBackExactly) {
  double value = 0.0;
  FieldTable table;
  table.real("a.b", value, {}, "", "");
  for (const double exact :
       {0.1, 1.0 / 3.0, 5e-5, 1e-12, 123456789.123456789, std::nextafter(1.0, 2.0), -0.0,
        std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()}) {
    value = exact;
    const std::string text = table.find("a.b")->get();
    value = 42.0;
    EXPECT_EQ(problem(table, "a.b", text), "") << text;
    EXPECT_EQ(value, exact) << text;
  }
}

TEST(FieldTable, ChoiceNamesTheNearestWord) {
  std::string method = "apo";
  FieldTable table;
  table.choice("method.name", method, {"apo", "fedavg", "base"}, "");
  EXPECT_EQ(table.find("method.name")->type, "apo|fedavg|base");
  EXPECT_EQ(problem(table, "method.name", "fedavgg"),
            "expected one of apo|fedavg|base, found 'fedavgg'; did you mean 'fedavg'?");
  EXPECT_EQ(problem(table, "method.name", "qqqqqqqq"),
            "expected one of apo|fedavg|base, found 'qqqqqqqq'");
  EXPECT_EQ(problem(table, "method.name", "base"), "");
  EXPECT_EQ(method, "base");
}

TEST(FieldTable, ListsAreTrimmedAndChecked) {
  std::vector<std::string> targets = {"q_proj"};
  std::vector<std::string> files;
  FieldTable table;
  table.list("lora.targets", targets, "", false, {"q_proj", "k_proj"});
  table.list("data.files", files, "", true);

  EXPECT_EQ(problem(table, "lora.targets", " k_proj , q_proj "), "");
  EXPECT_EQ(targets, (std::vector<std::string>{"k_proj", "q_proj"}));
  EXPECT_EQ(table.find("lora.targets")->get(), "k_proj,q_proj");
  EXPECT_EQ(problem(table, "lora.targets", "q_pro"),
            "expected one of q_proj|k_proj, found 'q_pro'; did you mean 'q_proj'?");
  EXPECT_EQ(problem(table, "lora.targets", "q_proj,q_proj"), "lists 'q_proj' twice");
  EXPECT_NE(problem(table, "lora.targets", "q_proj,"), "");
  EXPECT_NE(problem(table, "lora.targets", ",q_proj"), "");
  EXPECT_EQ(problem(table, "data.files", " "), "expected at least one entry, found nothing");
  EXPECT_EQ(table.find("data.files")->default_text, "");
}

TEST(FieldTable, NumberLists) {
  std::vector<int> rounds;
  std::vector<double> rates = {2e-5};
  FieldTable table;
  table.integer_list("phase2.start_rounds", rounds, {1, 1000}, "");
  table.real_list("phase2.server_learning_rate", rates, {0.0, 1.0, true}, "");

  EXPECT_EQ(problem(table, "phase2.start_rounds", "130, 150"), "");
  EXPECT_EQ(rounds, (std::vector<int>{130, 150}));
  EXPECT_EQ(problem(table, "phase2.start_rounds", "130,x"),
            "expected integers in [1, 1000], found 'x'");
  EXPECT_EQ(problem(table, "phase2.start_rounds", "130,130"), "lists 130 twice");
  EXPECT_EQ(problem(table, "phase2.start_rounds", ""), "");
  EXPECT_TRUE(rounds.empty());
  EXPECT_EQ(problem(table, "phase2.server_learning_rate", "0.1,0.30000000000000004"), "");
  EXPECT_EQ(table.find("phase2.server_learning_rate")->get(), "0.1,0.30000000000000004");
  EXPECT_EQ(problem(table, "phase2.server_learning_rate", "0.1,0"),
            "expected real numbers in (0, 1], found '0'");
}

TEST(FieldTable, TextThatAnIniFileCannotHoldIsRefused) {
  std::string path;
  FieldTable table;
  table.text("model.path", path, "", true);
  EXPECT_EQ(problem(table, "model.path", ""), "expected text, found nothing");
  EXPECT_NE(problem(table, "model.path", "a#b"), "");
  EXPECT_NE(problem(table, "model.path", "a\nb"), "");
  EXPECT_EQ(problem(table, "model.path", "models/my model=2"), "");
  EXPECT_EQ(path, "models/my model=2");
}

TEST(FieldTable, FlagAndDeclarationErrors) {
  bool on = false;
  FieldTable table;
  table.flag("monitor.theory", on, "");
  EXPECT_EQ(problem(table, "monitor.theory", "yes"), "expected true or false, found 'yes'");
  EXPECT_EQ(problem(table, "monitor.theory", "true"), "");
  EXPECT_TRUE(on);
  EXPECT_EQ(table.find("monitor.other"), nullptr);
  EXPECT_THROW(table.flag("monitor.theory", on, ""), Error);
  EXPECT_THROW(table.flag("theory", on, ""), Error);
  std::string word = "c";
  EXPECT_THROW(table.choice("a.word", word, {"a", "b"}, ""), Error);
}

}  // namespace
}  // namespace apo
