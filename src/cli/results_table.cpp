#include "results_table.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "fmt/format.h"
#include <nlohmann/json.hpp>

#include "apo/core/error.hpp"
#include "apo/metrics/scores.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {
namespace {

/// A table of text cells on its way to one of the formats.
struct TextTable {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

template <class T>
const std::vector<T>& column(const Table& table, std::string_view name) {
  const Column* found = table.find(name);
  if (found == nullptr || !std::holds_alternative<std::vector<T>>(found->values)) {
    throw Error(Fault::kData, fmt::format("run.h5: evaluation/summary has no column '{}'", name));
  }
  return std::get<std::vector<T>>(found->values);
}

/// One row of /evaluation/summary.
struct Row {
  std::string method;
  std::int64_t seed = 0;
  std::int64_t start_round = 0;
  std::int64_t cluster = 0;
  std::int64_t client = 0;
  std::string stage;
  std::vector<double> reward;
  double weighted_loss = 0.0;  ///< lambda'l over the objectives that were held out
  double parse_rate = 0.0;
  double score = 0.0;  ///< normalised when the reward can bound it, else raw
};

std::vector<Row> rows_of(const RunResults& run) {
  const Table& t = run.evaluation;
  const std::size_t m = run.objectives.size();
  const auto& loss = column<double>(t, "loss");
  const auto& reward = column<double>(t, "reward");
  std::vector<Row> rows(static_cast<std::size_t>(t.num_rows()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    row.method = run.method;
    row.seed = run.seed;
    row.start_round = column<std::int64_t>(t, "start_round")[i];
    row.cluster = column<std::int64_t>(t, "cluster")[i];
    row.client = column<std::int64_t>(t, "client")[i];
    row.stage = column<std::string>(t, "stage")[i];
    row.reward.assign(reward.begin() + static_cast<std::ptrdiff_t>(i * m),
                      reward.begin() + static_cast<std::ptrdiff_t>((i + 1) * m));
    double mass = 0.0;
    for (std::size_t j = 0; j < m; ++j) {
      const double lambda = run.preference[static_cast<std::size_t>(row.client)][j];
      if (!std::isnan(loss[i * m + j])) {
        row.weighted_loss += lambda * loss[i * m + j];
        mass += lambda;
      }
    }
    row.weighted_loss /= mass;
    row.parse_rate = column<double>(t, "parse_rate")[i];
    const double normalised = column<double>(t, "score_normalised")[i];
    row.score = std::isnan(normalised) ? column<double>(t, "score")[i] : normalised;
  }
  return rows;
}

/// Mean over rows of something, NaN without rows.
double mean(const std::vector<const Row*>& rows, const std::function<double(const Row&)>& of) {
  double sum = 0.0;
  for (const Row* row : rows) {
    sum += of(*row);
  }
  return rows.empty() ? std::nan("") : sum / static_cast<double>(rows.size());
}

std::string cell(double x) { return std::isnan(x) ? "-" : fmt::format("{:.3f}", x); }

int method_rank(const std::string& method) {
  const std::vector<std::string> order = {"base", "fedavg", "lambda", "apo"};
  return static_cast<int>(std::find(order.begin(), order.end(), method) - order.begin());
}

std::vector<std::string> methods_of(const std::vector<Row>& rows) {
  std::vector<std::string> methods;
  for (const Row& row : rows) {
    if (std::find(methods.begin(), methods.end(), row.method) == methods.end()) {
      methods.push_back(row.method);
    }
  }
  std::stable_sort(methods.begin(), methods.end(),
                   [](const auto& a, const auto& b) { return method_rank(a) < method_rank(b); });
  return methods;
}

/// Rows of one method and stage, optionally of one cluster. The base model has one stage only,
/// which stands for both before and after.
std::vector<const Row*> select(const std::vector<Row>& rows, const std::string& method,
                               const std::string& stage, std::optional<std::int64_t> cluster) {
  std::vector<const Row*> chosen;
  for (const Row& row : rows) {
    if (row.method == method && (!cluster || row.cluster == *cluster) &&
        row.stage == (method == "base" ? "base" : stage)) {
      chosen.push_back(&row);
    }
  }
  return chosen;
}

bool has_rewards(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const Row& row) { return !std::isnan(row.score); });
}

TextTable cluster_table(const std::vector<Row>& rows, const std::vector<std::string>& objectives) {
  const bool rewards = has_rewards(rows);
  TextTable table;
  table.title = "Test clients per cluster (means)";
  table.head = {"cluster", "method", "clients"};
  if (rewards) {
    for (const std::string& name : objectives) {
      table.head.push_back(name);
    }
    table.head.insert(table.head.end(), {"parse rate", "score before", "score after"});
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
    for (const std::string& method : methods_of(rows)) {
      const auto after = select(rows, method, "adapted", cluster);
      const auto before = select(rows, method, "initialiser", cluster);
      if (after.empty()) {
        continue;
      }
      std::vector<std::string> line = {cluster ? std::to_string(*cluster) : "all", method,
                                       std::to_string(after.size())};
      if (rewards) {
        for (std::size_t j = 0; j < objectives.size(); ++j) {
          line.push_back(cell(mean(after, [j](const Row& row) { return row.reward[j]; })));
        }
        line.push_back(cell(mean(after, [](const Row& row) { return row.parse_rate; })));
        line.push_back(cell(mean(before, [](const Row& row) { return row.score; })));
        line.push_back(cell(mean(after, [](const Row& row) { return row.score; })));
      }
      const auto loss = [](const Row& row) { return row.weighted_loss; };
      std::vector<const Row*> base;
      for (const Row& row : rows) {
        if (row.method == method && row.stage == "base" && (!cluster || row.cluster == *cluster)) {
          base.push_back(&row);
        }
      }
      line.push_back(cell(mean(base, loss)));
      line.push_back(cell(mean(before, loss)));
      line.push_back(cell(mean(after, loss)));
      table.rows.push_back(std::move(line));
    }
  }
  return table;
}

using ClientKey = std::pair<std::int64_t, std::int64_t>;  // (seed, client)

/// Score (or minus loss) of every client, averaged over start rounds.
std::map<ClientKey, double> by_client(const std::vector<const Row*>& rows, bool rewards) {
  std::map<ClientKey, std::pair<double, int>> sums;
  for (const Row* row : rows) {
    auto& [sum, count] = sums[{row->seed, row->client}];
    sum += rewards ? row->score : -row->weighted_loss;
    ++count;
  }
  std::map<ClientKey, double> means;
  for (const auto& [key, entry] : sums) {
    means[key] = entry.first / entry.second;
  }
  return means;
}

struct Comparison {
  int num_clients = 0;
  int num_better = 0;
  int num_seeds = 0;
  metrics::MeanInterval difference;  ///< over seeds, or over clients when there is one seed
};

std::optional<Comparison> compare(const std::map<ClientKey, double>& a,
                                  const std::map<ClientKey, double>& b) {
  std::map<std::int64_t, std::vector<double>> differences;  // by seed
  Comparison result;
  for (const auto& [key, value] : a) {
    const auto other = b.find(key);
    if (other == b.end() || std::isnan(value) || std::isnan(other->second)) {
      continue;
    }
    differences[key.first].push_back(value - other->second);
    ++result.num_clients;
    result.num_better += value > other->second ? 1 : 0;
  }
  if (differences.empty()) {
    return std::nullopt;
  }
  result.num_seeds = static_cast<int>(differences.size());
  std::vector<double> values;
  for (const auto& [seed, list] : differences) {
    if (result.num_seeds == 1) {
      values = list;
    } else {
      double sum = 0.0;
      for (const double x : list) {
        sum += x;
      }
      values.push_back(sum / static_cast<double>(list.size()));
    }
  }
  result.difference = metrics::mean_interval(values);
  return result;
}

TextTable comparison_table(const std::vector<Row>& rows) {
  const bool rewards = has_rewards(rows);
  TextTable table;
  table.title = rewards
                    ? "Paired differences of the preference-weighted score, 95 % intervals"
                    : "Paired differences of the held-out loss (negative: lower), 95 % intervals";
  table.head = {"difference", "mean", "95 % interval", "over", "better for"};
  const auto add = [&](const std::string& name, const std::vector<const Row*>& a,
                       const std::vector<const Row*>& b) {
    const auto result = compare(by_client(a, rewards), by_client(b, rewards));
    if (!result) {
      return;
    }
    const double sign = rewards ? 1.0 : -1.0;
    const double mean_value = sign * result->difference.mean;
    const double half = result->difference.half_width;
    table.rows.push_back(
        {name, fmt::format("{:+.3f}", mean_value),
         std::isfinite(half)
             ? fmt::format("[{:+.3f}, {:+.3f}]", mean_value - half, mean_value + half)
             : "-",
         result->num_seeds > 1 ? fmt::format("{} seeds", result->num_seeds)
                               : fmt::format("{} clients", result->num_clients),
         fmt::format("{} of {} clients", result->num_better, result->num_clients)});
  };
  const std::vector<std::string> methods = methods_of(rows);
  for (std::size_t a = methods.size(); a-- > 0;) {
    for (std::size_t b = 0; b < a; ++b) {
      add(methods[a] + " - " + methods[b], select(rows, methods[a], "adapted", std::nullopt),
          select(rows, methods[b], "adapted", std::nullopt));
    }
  }
  for (const std::string& method : methods) {
    if (method == "base") {
      continue;
    }
    const auto after = select(rows, method, "adapted", std::nullopt);
    const auto before = select(rows, method, "initialiser", std::nullopt);
    add(method + ": adaptation", after, before);
    if (!rewards) {
      std::vector<const Row*> base;
      for (const Row& row : rows) {
        if (row.method == method && row.stage == "base") {
          base.push_back(&row);
        }
      }
      add(method + " - its base", after, base);
    }
  }
  return table;
}

std::string to_text(const TextTable& table) {
  std::vector<std::size_t> width(table.head.size());
  for (std::size_t c = 0; c < table.head.size(); ++c) {
    width[c] = table.head[c].size();
    for (const auto& row : table.rows) {
      width[c] = std::max(width[c], row[c].size());
    }
  }
  std::string out = table.title + "\n";
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      text += fmt::format("{:<{}}  ", cells[c], width[c]);
    }
    while (!text.empty() && text.back() == ' ') {
      text.pop_back();
    }
    return text + "\n";
  };
  out += line(table.head);
  for (const auto& row : table.rows) {
    out += line(row);
  }
  return out;
}

std::string joined(const std::vector<std::string>& cells, const char* separator) {
  std::string text;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    text += (c == 0 ? "" : separator) + cells[c];
  }
  return text;
}

std::string to_markdown(const TextTable& table) {
  std::string out = "**" + table.title + "**\n\n| " + joined(table.head, " | ") + " |\n|";
  for (std::size_t c = 0; c < table.head.size(); ++c) {
    out += " --- |";
  }
  out += "\n";
  for (const auto& row : table.rows) {
    out += "| " + joined(row, " | ") + " |\n";
  }
  return out;
}

std::string to_csv(const TextTable& table) {
  const auto quoted = [](std::vector<std::string> cells) {
    for (std::string& text : cells) {
      if (text.find_first_of(",\"\n") != std::string::npos) {
        std::string escaped;
        for (const char c : text) {
          escaped += c == '"' ? std::string("\"\"") : std::string(1, c);
        }
        text = '"' + escaped + '"';
      }
    }
    return cells;
  };
  std::string out = joined(quoted(table.head), ",") + "\n";
  for (const auto& row : table.rows) {
    out += joined(quoted(row), ",") + "\n";
  }
  return out;
}

nlohmann::json to_json(const TextTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : table.rows) {
    nlohmann::json object;
    for (std::size_t c = 0; c < row.size(); ++c) {
      object[table.head[c]] = row[c];
    }
    rows.push_back(std::move(object));
  }
  return {{"title", table.title}, {"rows", std::move(rows)}};
}

}  // namespace

RunResults read_results(const std::filesystem::path& dir) {
  const std::filesystem::path file = std::filesystem::is_directory(dir) ? dir / "run.h5" : dir;
  if (!std::filesystem::exists(file)) {
    throw Error(Fault::kData, fmt::format("{}: no such file; expected a run directory with run.h5",
                                          file.string()));
  }
  const store::Document document = store::read_document(file);
  RunResults run;
  run.dir = dir;
  run.method = std::get<std::string>(document.attribute("", "method"));
  run.seed = std::get<std::int64_t>(document.attribute("", "seed"));
  run.objectives = std::get<std::vector<std::string>>(document.attribute("", "objectives"));
  const store::Array& preference = document.array("clients/preference");
  const auto& flat = std::get<std::vector<double>>(preference.values);
  const std::size_t m = run.objectives.size();
  for (std::size_t i = 0; i < flat.size(); i += m) {
    run.preference.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(i),
                                flat.begin() + static_cast<std::ptrdiff_t>(i + m));
  }
  if (!document.arrays.contains("evaluation/summary/client")) {
    throw Error(Fault::kData,
                fmt::format("{}: the run is not finished, it has no evaluation yet; continue it "
                            "with apo run --out {}",
                            file.string(), dir.string()));
  }
  run.evaluation = document.get_table("evaluation/summary");
  return run;
}

std::string format_tables(const std::vector<RunResults>& runs, TableFormat format) {
  std::vector<Row> rows;
  for (const RunResults& run : runs) {
    if (run.objectives != runs[0].objectives) {
      throw Error(Fault::kData,
                  fmt::format("{} and {} have different objectives and cannot share a table",
                              runs[0].dir.string(), run.dir.string()));
    }
    const std::vector<Row> more = rows_of(run);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (rows.empty()) {
    return "no test clients, nothing to compare\n";
  }
  const std::vector<TextTable> tables = {cluster_table(rows, runs[0].objectives),
                                         comparison_table(rows)};
  std::string out;
  nlohmann::json list = nlohmann::json::array();
  for (const TextTable& table : tables) {
    if (table.rows.empty()) {
      continue;
    }
    switch (format) {
      case TableFormat::kText:
        out += (out.empty() ? "" : "\n") + to_text(table);
        break;
      case TableFormat::kMarkdown:
        out += (out.empty() ? "" : "\n") + to_markdown(table);
        break;
      case TableFormat::kCsv:
        out += (out.empty() ? "" : "\n") + to_csv(table);
        break;
      case TableFormat::kJson:
        list.push_back(to_json(table));
        break;
    }
  }
  return format == TableFormat::kJson ? list.dump(2) + "\n" : out;
}

}  // namespace apo::cli
