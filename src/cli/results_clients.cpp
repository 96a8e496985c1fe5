#include <algorithm>
#include <cmath>
#include <optional>

#include "results_sections.hpp"
#include <fmt/format.h>

namespace apo::cli {
namespace {

double score_of(const Row& row) { return row.score; }
double loss_of(const Row& row) { return row.weighted_loss; }
double gap_of(const Row& row) { return row.gap; }

struct Comparison {
  Estimate difference;
  int num_better = 0;
};

/// @param rises  whether larger is better
std::optional<Comparison> compare(const std::map<ClientKey, double>& a,
                                  const std::map<ClientKey, double>& b, bool rises) {
  std::map<ClientKey, double> differences;
  Comparison result;
  for (const auto& [key, value] : a) {
    const auto other = b.find(key);
    if (other == b.end() || std::isnan(value) || std::isnan(other->second)) {
      continue;
    }
    differences[key] = value - other->second;
    result.num_better += (rises ? value > other->second : value < other->second) ? 1 : 0;
  }
  const auto difference = estimate(differences);
  if (!difference) {
    return std::nullopt;
  }
  result.difference = *difference;
  return result;
}

/// What a comparison table is about.
struct Subject {
  std::string title;
  Measure of;
  bool rises = true;
  std::string number;         ///< format of the differences
  bool against_base = false;  ///< also against the base model of the same run
};

std::string method_of(const std::string& label) { return label.substr(0, label.find(' ')); }

TextTable comparison_table(const std::vector<Row>& rows, const Subject& subject) {
  TextTable table;
  table.title = subject.title;
  table.head = {"difference", "mean", "95 % interval", "over", "better for"};
  const auto add = [&](const std::string& name, const Rows& a, const Rows& b) {
    const auto result = compare(by_client(a, subject.of), by_client(b, subject.of), subject.rises);
    if (!result) {
      return;
    }
    const Estimate& difference = result->difference;
    table.rows.push_back(
        {name, fmt::format(fmt::runtime(subject.number), difference.interval.mean),
         interval_cell(difference.interval.low(), difference.interval.high(), subject.number),
         difference.over(),
         fmt::format("{} of {} clients", result->num_better, difference.num_clients)});
  };
  const std::vector<std::string> labels = labels_of(rows);
  for (std::size_t a = labels.size(); a-- > 0;) {
    for (std::size_t b = 0; b < a; ++b) {
      if (b + 1 == a || method_of(labels[a]) != method_of(labels[b])) {
        add(labels[a] + " - " + labels[b], after_adaptation(rows, labels[a]),
            after_adaptation(rows, labels[b]));
      }
    }
  }
  for (const std::string& label : labels) {
    const std::vector<std::string> stages = stages_of(rows, label);
    if (std::find(stages.begin(), stages.end(), "adapted") != stages.end()) {
      add(label + ": adaptation", after_adaptation(rows, label), before_adaptation(rows, label));
    }
    if (subject.against_base && method_of(label) != "base") {
      add(label + " - its base", after_adaptation(rows, label), at_stage(rows, label, "base"));
    }
  }
  return table;
}

}  // namespace

TextTable cluster_table(const std::vector<Row>& rows, const std::vector<std::string>& objectives) {
  const auto reward_of = [](std::size_t j) {
    return [j](const Row& row) { return row.reward[j]; };
  };
  bool rewards = false;
  for (std::size_t j = 0; j < objectives.size(); ++j) {
    rewards = rewards || has_any(rows, reward_of(j));
  }
  const bool scores = has_any(rows, score_of);
  TextTable table;
  table.title = "Test clients per cluster (means)";
  table.head = {"cluster", "method", "clients"};
  if (rewards) {
    table.head.insert(table.head.end(), objectives.begin(), objectives.end());
    table.head.emplace_back("parse rate");
  }
  if (scores) {
    table.head.insert(table.head.end(), {"score before", "score after"});
  }
  table.head.insert(table.head.end(), {"loss base", "loss before", "loss after"});
  std::vector<std::optional<std::int64_t>> clusters;
  for (const Row& row : rows) {
    if (std::find(clusters.begin(), clusters.end(), row.cluster) == clusters.end()) {
      clusters.emplace_back(row.cluster);
    }
  }
  std::sort(clusters.begin(), clusters.end());
  clusters.emplace_back(std::nullopt);
  for (const auto& cluster : clusters) {
    for (const std::string& label : labels_of(rows)) {
      const Rows after = in_cluster(after_adaptation(rows, label), cluster);
      const Rows before = in_cluster(before_adaptation(rows, label), cluster);
      if (after.empty()) {
        continue;
      }
      std::vector<std::string> line = {cluster ? std::to_string(*cluster) : "all", label,
                                       std::to_string(after.size())};
      if (rewards) {
        for (std::size_t j = 0; j < objectives.size(); ++j) {
          line.push_back(cell(mean(after, reward_of(j))));
        }
        line.push_back(cell(mean(after, [](const Row& row) { return row.parse_rate; })));
      }
      if (scores) {
        line.push_back(cell(mean(before, score_of)));
        line.push_back(cell(mean(after, score_of)));
      }
      line.push_back(cell(mean(in_cluster(at_stage(rows, label, "base"), cluster), loss_of)));
      line.push_back(cell(mean(before, loss_of)));
      line.push_back(cell(mean(after, loss_of)));
      table.rows.push_back(std::move(line));
    }
  }
  return table;
}

std::vector<TextTable> comparison_tables(const std::vector<Row>& rows) {
  std::vector<TextTable> tables;
  const bool gaps = has_any(rows, gap_of);
  if (gaps) {
    tables.push_back(comparison_table(
        rows, {"Paired differences of the Chebyshev gap (negative: closer to the Pareto point), "
               "95 % intervals",
               gap_of, false, "{:+.3g}", true}));
  }
  if (has_any(rows, score_of)) {
    tables.push_back(comparison_table(
        rows, {"Paired differences of the preference-weighted score, 95 % intervals", score_of,
               true, "{:+.3f}", false}));
  } else if (!gaps) {
    tables.push_back(comparison_table(
        rows, {"Paired differences of the held-out loss (negative: lower), 95 % intervals", loss_of,
               false, "{:+.3f}", true}));
  }
  return tables;
}

}  // namespace apo::cli
