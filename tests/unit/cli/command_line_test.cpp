#include "command_line.hpp"

#include <gtest/gtest.h>

#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

CommandLine parse(const Arguments& arguments, bool keys = true) {
  return parse_command_line(arguments,
                            {{"config", true, 'c'}, {"out", true, 'o'}, {"markdown", false}}, keys);
}

std::string problem(const Arguments& arguments, bool keys = true) {
  try {
    (void)parse(arguments, keys);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kConfig);
    return error.what();
  }
  return "";
}

TEST(CommandLine, SortsOptionsKeysAndTheRest) {
  const CommandLine line = parse({"-c", "a.ini", "first", "--out=runs/x", "--lora.rank", "4",
                                  "--phase1.rounds=7", "--markdown", "--", "--second"});
  EXPECT_EQ(line.value("config"), "a.ini");
  EXPECT_EQ(line.value("out"), "runs/x");
  EXPECT_TRUE(line.has("markdown"));
  EXPECT_EQ(line.overrides, (std::vector<std::pair<std::string, std::string>>{
                                {"lora.rank", "4"}, {"phase1.rounds", "7"}}));
  EXPECT_EQ(line.positionals, (std::vector<std::string>{"first", "--second"}));
}

TEST(CommandLine, LastOneCountsAndValuesKeepTheirSigns) {
  const CommandLine line = parse(
      {"--out", "a", "--out", "b", "--dpo.beta", "-1", "--model.path=a=b", "--lora.targets="});
  EXPECT_EQ(line.value("out"), "b");
  EXPECT_EQ(line.overrides[0].second, "-1");
  EXPECT_EQ(line.overrides[1].second, "a=b");
  EXPECT_EQ(line.overrides[2].second, "");
  EXPECT_FALSE(line.has("config"));
  EXPECT_EQ(line.value("config"), std::nullopt);
}

TEST(CommandLine, AllProblemsAtOnce) {
  EXPECT_EQ(problem({"--ouut", "x", "--config", "--markdown=1", "--lora.rank", "-q"}),
            "unknown option '--ouut'; did you mean '--out'?\n"
            "option '--config' needs a value\n"
            "option '--markdown' takes no value, found '1'\n"
            "option '--lora.rank' needs a value\n"
            "unknown option '-q'");
}

TEST(CommandLine, KeysOnlyWhereTheyAreTaken) {
  EXPECT_EQ(problem({"--lora.rank", "4"}, false), "unknown option '--lora.rank'");
  EXPECT_EQ(problem({"--lora.rank", "4"}, true), "");
}

}  // namespace
}  // namespace apo::cli
