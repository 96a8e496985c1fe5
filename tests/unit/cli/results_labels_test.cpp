#include <algorithm>

#include "results_rows.hpp"
#include "sample_runs.hpp"
#include <gtest/gtest.h>

namespace apo::cli {
namespace {

using test::sample_run;
using Strings = std::vector<std::string>;

TEST(RunLabels, NameWhatRunsOfOneMethodDifferIn) {
  std::vector<RunResults> runs = {sample_run("apo", 1, {}), sample_run("apo", 1, {}),
                                  sample_run("apo", 2, {}), sample_run("fedavg", 1, {})};
  EXPECT_EQ(run_labels(runs), (Strings{"apo", "apo", "apo", "fedavg"})) << "seeds are replicates";
  test::set_budget(runs[1], 16);
  EXPECT_EQ(run_labels(runs), (Strings{"apo clustering.budget=1", "apo clustering.budget=16",
                                       "apo clustering.budget=1", "fedavg"}));
  runs[0].configuration += "threads = 4\n\n[monitor]\ntheory = true\n";
  EXPECT_EQ(run_labels(runs)[0], "apo clustering.budget=1") << "no setting of the experiment";
  runs[0].configuration += "\n[adapt]\nsteps = 3\n";
  runs[1].configuration += "\n[adapt]\nsteps = 5\n";
  EXPECT_EQ(run_labels(runs)[1], "apo adapt.steps=5 clustering.budget=16");
  for (RunResults& run : runs) {
    run.configuration.clear();
  }
  EXPECT_EQ(run_labels(runs), (Strings{"apo", "apo", "apo", "fedavg"}));
}

TEST(RunLabels, Settings) {
  RunResults run = sample_run("apo", 7, {});
  EXPECT_EQ(setting(run, "clustering.budget"), "1");
  EXPECT_EQ(setting(run, "runtime.seed"), "7");
  EXPECT_EQ(setting(run, "clustering.linkage"), "");
  run.configuration = "# a note = 3\n[data]\nfiles =\nobjectives = a,b\n";
  EXPECT_EQ(setting(run, "data.files"), "");
  EXPECT_EQ(setting(run, "data.objectives"), "a,b");
}

TEST(RunLabels, OrderInTables) {
  Strings labels = {"apo clustering.budget=16", "new", "apo+mgda", "lambda", "fedavg",
                    "apo clustering.budget=2",  "apo", "base",     "firm"};
  const Strings expected = {"base",
                            "fedavg",
                            "firm",
                            "lambda",
                            "apo+mgda",
                            "apo",
                            "apo clustering.budget=2",
                            "apo clustering.budget=16",
                            "new"};
  for (int order = 0; order < 500; ++order) {
    std::next_permutation(labels.begin(), labels.end());
    Strings sorted = labels;
    std::sort(sorted.begin(), sorted.end(), label_before);
    ASSERT_EQ(sorted, expected);
  }
  EXPECT_TRUE(label_before("apo phase1.learning_rate=0.005", "apo phase1.learning_rate=0.01"));
  EXPECT_TRUE(label_before("apo data.files=inf", "apo data.files=nan"));
  EXPECT_TRUE(label_before("apo dpo.beta=1", "apo dpo.beta=1.0")) << "distinct labels never tie";
  EXPECT_FALSE(label_before("apo dpo.beta=1.0", "apo dpo.beta=1"));
  EXPECT_FALSE(label_before("apo", "apo"));
}

}  // namespace
}  // namespace apo::cli
