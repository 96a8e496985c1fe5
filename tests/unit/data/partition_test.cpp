#include "apo/data/partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "unit/data/temporary_file.hpp"
#include <gtest/gtest.h>

#include "apo/core/rng.hpp"
#include "apo/core/simplex.hpp"

namespace apo::data {
namespace {

using test::error_of;
using test::TemporaryFolder;

constexpr std::uint64_t kSeed = 17;

PreferencePair pair_of(const std::string& client, int objective,
                       RowSplit split = RowSplit::kUnset) {
  PreferencePair pair;
  pair.prompt = {{"user", "Q"}};
  pair.chosen = "A";
  pair.rejected = "B";
  pair.client = client;
  pair.objective = objective;
  pair.split = split;
  return pair;
}

/// num_pairs pairs of m objectives in turn; client names in reverse order of the pairs.
PreferenceData make_data(int num_clients, int pairs_per_client, int m) {
  PreferenceData data;
  for (int j = 0; j < m; ++j) {
    data.objectives.push_back("objective" + std::to_string(j));
  }
  for (int k = num_clients - 1; k >= 0; --k) {
    for (int i = 0; i < pairs_per_client; ++i) {
      data.pairs.push_back(pair_of(std::string(1, static_cast<char>('a' + k)), i % m));
      data.pairs.back().row = static_cast<std::int64_t>(data.pairs.size());
    }
  }
  return data;
}

DataOptions base_options() {
  DataOptions options;
  options.files = {"rows.jsonl"};
  options.test_fraction = 0.0;
  return options;
}

/// How often each pair stands in some pool; checks that pools match objectives.
std::vector<int> uses(const Partition& partition, const PreferenceData& data) {
  std::vector<int> count(data.pairs.size(), 0);
  for (const Client& client : partition.clients) {
    for (const Pool* pool : {&client.train, &client.adapt, &client.evaluate}) {
      EXPECT_EQ(pool->size(), data.objectives.size());
      for (std::size_t j = 0; j < pool->size(); ++j) {
        EXPECT_TRUE(std::is_sorted((*pool)[j].begin(), (*pool)[j].end()));
        for (const int pair : (*pool)[j]) {
          ++count[static_cast<std::size_t>(pair)];
          EXPECT_EQ(data.pairs[static_cast<std::size_t>(pair)].objective, static_cast<int>(j));
        }
      }
    }
  }
  return count;
}

std::vector<int> once(const PreferenceData& data) { return std::vector<int>(data.pairs.size(), 1); }

std::string failure(const PreferenceData& data, const DataOptions& options,
                    Fault fault = Fault::kData) {
  return error_of(fault, [&] { (void)make_partition(data, options, kSeed); });
}

TEST(Clients, FieldGivesEachClientItsRowsInOrderOfNames) {
  const PreferenceData data = make_data(5, 7, 2);
  const Partition partition = make_partition(data, base_options(), kSeed);
  ASSERT_EQ(partition.clients.size(), 5U);
  EXPECT_EQ(uses(partition, data), once(data));
  for (std::size_t k = 0; k < 5; ++k) {
    const Client& client = partition.clients[k];
    EXPECT_EQ(client.name, std::string(1, static_cast<char>('a' + k)));
    EXPECT_EQ(client.id.index(), k);
    EXPECT_EQ(client.num_pairs(), 7);
    EXPECT_EQ(client.train[0].size(), 4U);
  }
  EXPECT_EQ(partition.train_clients().size(), 5U);
  EXPECT_TRUE(partition.test_clients().empty());
}

TEST(Clients, FieldCountsRowsWithoutClient) {
  PreferenceData data = make_data(2, 3, 1);
  data.pairs[1].client.clear();
  data.pairs[4].client.clear();
  EXPECT_HAS(failure(data, base_options()),
             "2 of 6 rows in use name no client (the first is rows.jsonl row 2)");
}

TEST(Clients, EvenCoversEachPairOnceAndBalancesObjectives) {
  const PreferenceData data = make_data(1, 103, 3);
  DataOptions options = base_options();
  options.clients = "even:10";
  const Partition partition = make_partition(data, options, kSeed);
  ASSERT_EQ(partition.clients.size(), 10U);
  EXPECT_EQ(uses(partition, data), once(data));
  EXPECT_EQ(partition.clients[0].name, "client-0000");
  for (const Client& client : partition.clients) {
    EXPECT_GE(pool_size(client.train), 10);
    EXPECT_LE(pool_size(client.train), 11);
    for (const auto& pairs : client.train) {
      EXPECT_GE(pairs.size(), 3U);
      EXPECT_LE(pairs.size(), 4U);
    }
  }
}

TEST(Clients, DirichletCoversEachPairOnceAndItsSpreadFollowsAlpha) {
  const PreferenceData data = make_data(1, 2000, 2);
  DataOptions options = base_options();
  const auto spread = [&](const std::string& spec) {
    options.clients = spec;
    const Partition partition = make_partition(data, options, kSeed);
    EXPECT_EQ(uses(partition, data), once(data));
    double sum = 0.0;
    for (const Client& client : partition.clients) {
      EXPECT_GT(pool_size(client.train), 0);
      for (const auto& pairs : client.train) {
        const double share = static_cast<double>(pairs.size()) / 1000.0 - 1.0 / 20.0;
        sum += share * share;
      }
    }
    return sum / 40.0;
  };
  // Variance of one share of a symmetric Dirichlet: (1/N)(1 - 1/N) / (N alpha + 1).
  const double uniform = 0.05 * 0.95;
  EXPECT_NEAR(spread("dirichlet:20:100"), uniform / 2001.0, 0.5 * uniform / 2001.0);
  EXPECT_NEAR(spread("dirichlet:20:1"), uniform / 21.0, 0.6 * uniform / 21.0);
  EXPECT_GT(spread("dirichlet:20:0.01"), 5.0 * uniform / 21.0);
}

TEST(Clients, MoreClientsThanPairsAndBadSpecs) {
  const PreferenceData data = make_data(1, 5, 1);
  DataOptions options = base_options();
  options.clients = "even:6";
  EXPECT_HAS(failure(data, options), "asks for 6 clients, but there are only 5 pairs");
  options.clients = "dirichlet:5:0.001";
  EXPECT_EQ(make_partition(data, options, kSeed).clients.size(), 5U);
  for (const char* spec : {"evenly", "even:x", "even:0", "even:2.5", "even", "dirichlet:3",
                           "dirichlet:3:-1", "dirichlet:3:1:1"}) {
    options.clients = spec;
    EXPECT_HAS(failure(data, options, Fault::kConfig), "data.clients");
  }
}

TEST(Clients, SameArgumentsSameResultOtherSeedOther) {
  const PreferenceData data = make_data(1, 90, 3);
  DataOptions options = base_options();
  options.clients = "dirichlet:9:0.5";
  options.test_fraction = 0.3;
  const auto text = [&](std::uint64_t seed) {
    std::string all;
    for (const Client& client : make_partition(data, options, seed).clients) {
      all += client.name + (client.split == ClientSplit::kTest ? " test" : " train");
      for (const Pool* pool : {&client.train, &client.adapt, &client.evaluate}) {
        for (const auto& pairs : *pool) {
          for (const int pair : pairs) {
            all += " " + std::to_string(pair);
          }
        }
      }
      for (const double x : client.preference) {
        all += " " + std::to_string(x);
      }
    }
    return all;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Splits, TestClientsAreDrawnAndTheirPairsDivided) {
  const PreferenceData data = make_data(10, 70, 2);
  DataOptions options = base_options();
  options.test_fraction = 0.2;
  const Partition partition = make_partition(data, options, kSeed);
  EXPECT_EQ(uses(partition, data), once(data));
  EXPECT_EQ(partition.test_clients().size(), 2U);
  EXPECT_EQ(partition.train_clients().size(), 8U);
  for (const ClientId id : partition.test_clients()) {
    const Client& client = partition.clients[id.index()];
    EXPECT_EQ(pool_size(client.train), 0);
    EXPECT_EQ(client.adapt[0].size(), 10U);
    EXPECT_EQ(client.adapt[1].size(), 10U);
    EXPECT_EQ(pool_size(client.evaluate), 50);
    EXPECT_EQ(client.num_pairs(), 20);
  }
  EXPECT_TRUE(partition.dropped.empty());
}

TEST(Splits, AtLeastOneTestClientAndAnyOfThemOverSeeds) {
  const PreferenceData data = make_data(4, 6, 1);
  DataOptions options = base_options();
  options.test_fraction = 0.01;
  std::vector<int> chosen(4, 0);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto ids = make_partition(data, options, seed).test_clients();
    ASSERT_EQ(ids.size(), 1U);
    ++chosen[ids[0].index()];
  }
  EXPECT_GE(*std::min_element(chosen.begin(), chosen.end()), 5);
}

TEST(Splits, AdaptPairsFollowTheSharesAndLeaveOneToEvaluate) {
  // 40 of objective 0, 8 of objective 1, one of objective 2; another client has all three.
  PreferenceData data;
  data.objectives = {"x", "y", "z"};
  for (const auto& [objective, size] : {std::pair{0, 40}, std::pair{1, 8}, std::pair{2, 1}}) {
    for (int i = 0; i < size; ++i) {
      data.pairs.push_back(pair_of("big", objective));
    }
    data.pairs.push_back(pair_of("small", objective));  // one of each
  }
  DataOptions options = base_options();
  options.test_fraction = 0.5;
  options.adapt_pairs = 12;
  bool seen_big = false;
  bool seen_small = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Partition partition = make_partition(data, options, seed);
    const auto ids = partition.test_clients();
    ASSERT_EQ(ids.size(), 1U);
    const Client& client = partition.clients[ids[0].index()];
    if (client.name == "big") {
      seen_big = true;
      EXPECT_EQ(client.adapt[0].size(), 10U);
      EXPECT_EQ(client.adapt[1].size(), 2U);
      EXPECT_EQ(client.adapt[2].size(), 0U);
      EXPECT_EQ(client.evaluate[2].size(), 1U);
      EXPECT_EQ(partition.dropped,
                (test::Counts{{"test client's only pair of an objective (not adapted on)", 1}}));
    } else {
      seen_small = true;
      EXPECT_EQ(pool_size(client.adapt), 1);
      EXPECT_EQ(pool_size(client.evaluate), 2);
      EXPECT_EQ(partition.dropped.at("test clients with fewer than data.adapt_pairs"), 1);
    }
  }
  EXPECT_TRUE(seen_big && seen_small);
}

TEST(Splits, AFewAdaptPairsStillGiveOneOfEachObjective) {
  const PreferenceData data = make_data(3, 9, 3);
  DataOptions options = base_options();
  options.test_fraction = 0.3;
  options.adapt_pairs = 1;
  const Partition partition = make_partition(data, options, kSeed);
  for (const auto& pairs : partition.clients[partition.test_clients().at(0).index()].adapt) {
    EXPECT_EQ(pairs.size(), 1U);
  }
}

TEST(Splits, ClientsOfOnePairAndLastOwnersStayInTraining) {
  PreferenceData data = make_data(4, 1, 1);  // a, b, c, d: one pair each
  data.objectives = {"x", "y"};
  for (int i = 0; i < 4; ++i) {
    data.pairs.push_back(pair_of("only-owner", i % 2));
    data.pairs.push_back(pair_of("spare", 0));
  }
  DataOptions options = base_options();
  options.test_fraction = 0.5;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Partition partition = make_partition(data, options, seed);
    ASSERT_EQ(partition.test_clients().size(), 1U);
    EXPECT_EQ(partition.clients[partition.test_clients()[0].index()].name, "spare");
    EXPECT_EQ(partition.dropped.at("clients short of data.test_fraction"), 2);
  }
  const PreferenceData single = make_data(1, 10, 1);
  EXPECT_HAS(failure(single, options), "none of the 1 clients can be a test client");
}

TEST(Splits, RowsDecideWhenTheyCarryASplit) {
  PreferenceData data;
  data.objectives = {"x"};
  data.pairs = {pair_of("t", 0, RowSplit::kAdapt), pair_of("t", 0, RowSplit::kEvaluate),
                pair_of("u", 0, RowSplit::kTrain), pair_of("v", 0)};
  DataOptions options = base_options();
  options.test_fraction = 0.5;  // ignored
  const Partition partition = make_partition(data, options, kSeed);
  ASSERT_EQ(partition.test_clients(), (std::vector<ClientId>{ClientId{0}}));
  EXPECT_EQ(partition.clients[0].adapt[0], (std::vector<int>{0}));
  EXPECT_EQ(partition.clients[0].evaluate[0], (std::vector<int>{1}));
  options.clients = "even:2";
  EXPECT_HAS(failure(data, options), "only data.clients = field can respect");
  options.clients = "field";
  data.pairs.push_back(pair_of("t", 0, RowSplit::kTrain));
  EXPECT_HAS(failure(data, options), "client 't': 1 train (or without split), 1 adapt, 1 evaluate");
  data.pairs.back().client = "u";
  data.pairs[1].client = "w";
  EXPECT_HAS(failure(data, options), "client 't': 0 train (or without split), 1 adapt, 0 evaluate");
}

TEST(Splits, ObjectiveThatOnlyTestClientsHave) {
  PreferenceData data;
  data.objectives = {"x", "rare"};
  data.pairs = {pair_of("t", 0, RowSplit::kAdapt), pair_of("t", 1, RowSplit::kEvaluate),
                pair_of("u", 0, RowSplit::kTrain)};
  EXPECT_HAS(failure(data, base_options()), "no training client has a pair of objective 'rare'");
}

TEST(Splits, PairsPerClientAreEvenOverObjectives) {
  PreferenceData data;
  data.objectives = {"x", "y", "z"};
  for (const char* name : {"a", "b", "c"}) {
    for (const auto& [objective, size] : {std::pair{0, 50}, std::pair{1, 3}, std::pair{2, 50}}) {
      for (int i = 0; i < size; ++i) {
        data.pairs.push_back(pair_of(name, objective));
      }
    }
  }
  DataOptions options = base_options();
  options.pairs_per_client = 21;
  Partition partition = make_partition(data, options, kSeed);
  for (const Client& client : partition.clients) {
    EXPECT_EQ(client.train[0].size(), 9U);
    EXPECT_EQ(client.train[1].size(), 3U);
    EXPECT_EQ(client.train[2].size(), 9U);
  }
  EXPECT_EQ(partition.dropped.at("more than pairs_per_client"), 3 * (103 - 21));
  options.pairs_per_client = 1;  // another objective for each client, so none is lost
  partition = make_partition(data, options, kSeed);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(partition.clients[k].train[k].size(), 1U);
  }
}

TEST(Preferences, DirichletHasItsMeanAndIsKeyedByClient) {
  const PreferenceData data = make_data(20, 3, 3);
  DataOptions options = base_options();
  options.preferences = "dirichlet:6:3:1";
  std::vector<double> mean(3, 0.0);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const Client& client : make_partition(data, options, seed).clients) {
      double sum = 0.0;
      for (std::size_t j = 0; j < 3; ++j) {
        EXPECT_GE(client.preference[j], 0.9 * kPreferenceFloor);
        mean[j] += client.preference[j] / 2000.0;
        sum += client.preference[j];
      }
      EXPECT_NEAR(sum, 1.0, 1e-12);
    }
  }
  // Standard error of the mean: at most sqrt(.25 / 11 / 2000) = 0.0034.
  EXPECT_NEAR(mean[0], 0.6, 0.015);
  EXPECT_NEAR(mean[1], 0.3, 0.015);
  EXPECT_NEAR(mean[2], 0.1, 0.015);
  // The draw is that of the stream (seed, preference, position): others change nothing.
  const std::vector<double> alpha = {6.0, 3.0, 1.0};
  CounterRng rng({.seed = kSeed, .purpose = Purpose::kPreference, .a = 4});
  const std::vector<double> draw = rng.dirichlet(alpha);
  const Partition partition = make_partition(data, options, kSeed);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(partition.clients[4].preference[j], draw[j], 1e-5);
  }
}

TEST(Preferences, CornersTurnWithTheClient) {
  const PreferenceData data = make_data(12, 3, 3);
  DataOptions options = base_options();
  options.preferences = "corners:80:1";
  const Partition partition = make_partition(data, options, kSeed);
  for (std::size_t k = 0; k < 12; ++k) {
    EXPECT_GT(partition.clients[k].preference[k % 3], 0.8);
  }
}

TEST(Preferences, GridCyclesThroughAllCompositions) {
  const PreferenceData data = make_data(8, 3, 3);
  DataOptions options = base_options();
  options.preferences = "grid:2";
  const Partition partition = make_partition(data, options, kSeed);
  const std::vector<std::vector<double>> points = {{0, 0, 1},   {0, .5, .5}, {0, 1, 0},
                                                   {.5, 0, .5}, {.5, .5, 0}, {1, 0, 0}};
  for (std::size_t k = 0; k < 8; ++k) {
    for (std::size_t j = 0; j < 3; ++j) {
      const double entry = partition.clients[k].preference[j];
      EXPECT_NEAR(entry, points[k % 6][j], 3e-6);
      EXPECT_GT(entry, 0.0);
    }
  }
}

TEST(Preferences, FilesInThreeForms) {
  const TemporaryFolder folder;
  const PreferenceData data = make_data(2, 4, 2);
  DataOptions options = base_options();
  for (const std::string& path :
       {folder.write("p.csv",
                     "\xef\xbb\xbfobjective1,client,objective0\r\n3,a,1\r\n1,\"b\",1\r\n"
                     "1,unused,2\r\n"),
        folder.write("p.jsonl",
                     "{\"client\": \"b\", \"preference\": [0.5, 0.5]}\n"
                     "{\"client\": \"a\", \"preference\": [0.25, 0.75]}\n"),
        folder.write("q.jsonl",
                     "{\"client\": \"b\", \"preference\": {\"objective1\": 2, \"objective0\": 2}}\n"
                     "{\"client\": \"a\", \"preference\": {\"objective1\": 3, \"objective0\": 1}}"
                     "\n")}) {
    options.preferences = path;
    const Partition partition = make_partition(data, options, kSeed);
    EXPECT_DOUBLE_EQ(partition.clients[0].preference[0], 0.25) << path;
    EXPECT_DOUBLE_EQ(partition.clients[0].preference[1], 0.75) << path;
    EXPECT_DOUBLE_EQ(partition.clients[1].preference[0], 0.5) << path;
  }
}

TEST(Preferences, FileErrorsNameLineCellAndClient) {
  const TemporaryFolder folder;
  const PreferenceData data = make_data(3, 4, 2);
  DataOptions options = base_options();
  const auto message = [&](const std::string& name, const std::string& text) {
    options.preferences = folder.write(name, text);
    const std::string found = failure(data, options);
    EXPECT_HAS(found, name);
    return found;
  };
  const std::string head = "client,objective0,objective1\n";
  EXPECT_HAS(message("a.csv", head + "a,1,1\nb,1,x\nc,1\n"),
             "line 3: column 'objective1': found 'x', expected a number");
  EXPECT_HAS(message("a.csv", head + "a,1,1\nb,1,x\nc,1\n"), "line 4: found 2 cells, expected 3");
  EXPECT_HAS(message("b.csv", head + "a,1,1\nb,2,1\n"), "no row for client 'c'");
  EXPECT_HAS(message("c.csv", head + "a,1,1\na,2,1\nb,1,1\nc,1,1\n"),
             "line 3: client 'a' stands twice");
  EXPECT_HAS(message("d.csv", "client,objective0,safety\na,1,1\n"),
             "no column 'objective1'; found client,objective0,safety");
  EXPECT_HAS(message("e.csv", head + "a,0,0\nb,-1,2\nc,1,1\n"), "line 3: client 'b'");
  EXPECT_HAS(message("f.jsonl", "{\"client\": \"a\", \"preference\": [1]}\n"),
             "found a list of 1, expected one number for each of objective0, objective1");
  EXPECT_HAS(message("g.jsonl", "{\"client\": \"a\", \"preference\": [1, \"2\"]}\n"),
             "preference for 'objective1': found the string \"2\", expected a number");
}

TEST(Preferences, BadSpecsAreConfigurationErrors) {
  const PreferenceData data = make_data(2, 4, 2);
  DataOptions options = base_options();
  for (const char* spec :
       {"no-such-file.csv", "dirichlet:", "dirichlet:1:2:3", "dirichlet:0", "corners:5",
        "corners:5:x", "grid:0", "grid:1.5", "grid:2:2", "dirichlet:nan", "grid:100001"}) {
    options.preferences = spec;
    EXPECT_HAS(failure(data, options, Fault::kConfig), "data.preferences");
  }
}

}  // namespace
}  // namespace apo::data
