#include "sample_runs.hpp"
#include "support/scratch.hpp"
#include <gtest/gtest.h>

#include "apo/core/error.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {
namespace {

using test::sample_run;

store::Document document_of(const RunResults& run) {
  store::Document document;
  document.attributes[""]["method"] = run.method;
  document.attributes[""]["seed"] = run.seed;
  document.attributes[""]["objectives"] = run.objectives;
  std::vector<double> preference;
  for (const auto& row : run.preference) {
    preference.insert(preference.end(), row.begin(), row.end());
  }
  document.arrays["clients/preference"] = {
      preference, {static_cast<std::int64_t>(run.preference.size()), 2}, "1", "", {}};
  document.put_table("evaluation/summary", run.evaluation, "row");
  return document;
}

TEST(ReadResults, OfNewAndOlderFiles) {
  const apo::test::Scratch scratch;
  const RunResults old = sample_run("apo", 5, {{"adapted", 2, {3, 4}}}, true);
  store::Document document = document_of(old);
  store::write_document(scratch / "run.h5", document);
  RunResults read = read_results(scratch.path());
  EXPECT_EQ(read.method, "apo");
  EXPECT_EQ(read.seed, 5);
  EXPECT_EQ(read.preference, old.preference);
  EXPECT_EQ(read.evaluation.num_rows(), 1);
  EXPECT_EQ(read.configuration, "");
  EXPECT_EQ(read.num_clusters, 0);
  const auto range = score_range_of({read});
  ASSERT_TRUE(range) << "falls back to the rewards";
  EXPECT_EQ(range->score, "mean reward");
  EXPECT_EQ(range->range[1].high, 4);
  document.attributes[""]["configuration"] = old.configuration;
  document.arrays["clusters/id"] = {std::vector<std::int64_t>{0, 1, 2}, {3}, "", "", {}};
  store::write_document(scratch / "run.h5", document);
  read = read_results(scratch / "run.h5");
  EXPECT_EQ(read.configuration, old.configuration);
  EXPECT_EQ(read.num_clusters, 3);
}

TEST(ReadResults, RefusesWhatIsNotThereYet) {
  const apo::test::Scratch scratch;
  EXPECT_THROW(static_cast<void>(read_results(scratch.path())), Error);
  store::Document document = document_of(sample_run("apo", 5, {}));
  std::erase_if(document.arrays,
                [](const auto& entry) { return entry.first.starts_with("evaluation/"); });
  document.attributes.erase("evaluation/summary");
  store::write_document(scratch / "run.h5", document);
  try {
    static_cast<void>(read_results(scratch.path()));
    ADD_FAILURE() << "an unfinished run was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kData);
    EXPECT_NE(std::string(error.what()).find("not finished"), std::string::npos);
  }
  RunResults stranger = sample_run("apo", 5, {{"adapted", 3, {1, 2}}});
  EXPECT_THROW(static_cast<void>(make_report({stranger}, {})), Error);
}

}  // namespace
}  // namespace apo::cli
