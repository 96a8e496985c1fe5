#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "dialogue.hpp"
#include "json_text.hpp"
#include "apo/data/preference_vectors.hpp"
#include "read_bytes.hpp"
#include "row_source.hpp"
#include "spec_text.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"
#include "apo/core/simplex.hpp"

namespace apo::data {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxListed = 20;

/// Collects what is wrong in a file, to be shown at once.
class Findings {
 public:
  explicit Findings(std::string file) : file_(std::move(file)) {}

  void add(std::int64_t line, const std::string& what) {
    if (++count_ <= kMaxListed) {
      text_ += fmt::format("\n  line {}: {}", line, what);
    }
  }
  void add(const std::string& what) {
    if (++count_ <= kMaxListed) {
      text_ += "\n  " + what;
    }
  }
  void throw_if_any() const {
    if (count_ > kMaxListed) {
      throw Error(Fault::kData, fmt::format("{}: not a usable preference file:{}\n  and {} more",
                                            file_, text_, count_ - kMaxListed));
    }
    if (count_ > 0) {
      throw Error(Fault::kData, fmt::format("{}: not a usable preference file:{}", file_, text_));
    }
  }

 private:
  std::string file_;
  std::string text_;
  std::size_t count_ = 0;
};

/// Rows by client; one that stands twice is a finding.
class Rows {
 public:
  explicit Rows(Findings& findings) : findings_(findings) {}

  void add(std::int64_t line, const std::string& client, const std::vector<double>& values) {
    try {
      auto preference = normalised_preference(values, fmt::format("client '{}'", client));
      if (!rows_.emplace(client, std::move(preference)).second) {
        findings_.add(line, fmt::format("client '{}' stands twice", client));
      }
    } catch (const Error& error) {
      findings_.add(line, error.what());
    }
  }
  [[nodiscard]] const std::map<std::string, std::vector<double>>& rows() const { return rows_; }

 private:
  Findings& findings_;
  std::map<std::string, std::vector<double>> rows_;
};

/// Cells of one CSV line; a cell in double quotes may hold commas, and doubled quotes.
std::vector<std::string> split_csv(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  for (std::string& cell : cells) {
    cell = std::string(trimmed(cell));
  }
  return cells;
}

void read_csv(std::string_view text, const std::vector<std::string>& objectives, Findings& findings,
              Rows& rows) {
  std::vector<std::size_t> columns;  // of the objectives
  std::size_t client_column = 0;
  std::size_t num_columns = 0;
  std::int64_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(text.substr(at, newline - at));
    at = newline + 1;
    ++line_number;
    if (line.empty()) {
      continue;
    }
    const std::vector<std::string> cells = split_csv(line);
    if (num_columns == 0) {
      num_columns = cells.size();
      const auto column_of = [&](const std::string& name) -> std::size_t {
        const auto found = std::find(cells.begin(), cells.end(), name);
        if (found == cells.end()) {
          findings.add(line_number,
                       fmt::format("no column '{}'; found {}; expected client,{}", name,
                                   fmt::join(cells, ","), fmt::join(objectives, ",")));
        }
        return static_cast<std::size_t>(found - cells.begin());
      };
      client_column = column_of("client");
      for (const std::string& objective : objectives) {
        columns.push_back(column_of(objective));
      }
      findings.throw_if_any();
      if (num_columns != objectives.size() + 1) {
        findings.add(line_number, fmt::format("found columns {}; expected only client,{}",
                                              fmt::join(cells, ","), fmt::join(objectives, ",")));
        findings.throw_if_any();
      }
      continue;
    }
    if (cells.size() != num_columns) {
      findings.add(line_number,
                   fmt::format("found {} cells, expected {}", cells.size(), num_columns));
      continue;
    }
    std::vector<double> values;
    for (std::size_t j = 0; j < objectives.size(); ++j) {
      const std::string& cell = cells[columns[j]];
      const std::optional<double> value = parse_number(cell);
      if (!value) {
        findings.add(line_number, fmt::format("column '{}': found '{}', expected a number",
                                              objectives[j], cell));
        continue;
      }
      values.push_back(*value);
    }
    if (values.size() == objectives.size()) {
      rows.add(line_number, cells[client_column], values);
    }
  }
}

/// "preference" of a JSON row, in the order of the objectives; empty when something was found.
std::vector<double> read_values(const json& preference, std::int64_t line,
                                const std::vector<std::string>& objectives, Findings& findings) {
  std::vector<double> values;
  if (preference.size() != objectives.size()) {
    findings.add(line, fmt::format("field 'preference': found {}, expected one number for each of "
                                   "{}",
                                   describe(preference), fmt::join(objectives, ", ")));
    return values;
  }
  for (std::size_t j = 0; j < objectives.size(); ++j) {
    const bool by_name = preference.is_object();
    if (by_name && !preference.contains(objectives[j])) {
      findings.add(line, fmt::format("field 'preference': no '{}'; found {}", objectives[j],
                                     describe(preference)));
      return {};
    }
    const json& value = by_name ? preference.at(objectives[j]) : preference[j];
    if (!value.is_number()) {
      findings.add(line, fmt::format("preference for '{}': found {}, expected a number",
                                     objectives[j], describe(value)));
      return {};
    }
    values.push_back(value.get<double>());
  }
  return values;
}

void read_json(std::string_view text, const std::string& file,
               const std::vector<std::string>& objectives, Findings& findings, Rows& rows) {
  for (const RawRow& raw : split_rows(text, file).rows) {
    try {
      const json row = parse_json(raw.text);
      const bool object = row.is_object();
      if (!object || !row.contains("client") || !row.contains("preference")) {
        findings.add(raw.line, fmt::format("found {}, expected {{\"client\": ..., \"preference\": "
                                           "...}}",
                                           describe(row)));
        continue;
      }
      const json& client = row.at("client");
      const json& preference = row.at("preference");
      if (!client.is_string() && !client.is_number_integer()) {
        findings.add(raw.line,
                     fmt::format("field 'client': found {}, expected a name", describe(client)));
        continue;
      }
      if (!preference.is_array() && !preference.is_object()) {
        findings.add(raw.line, fmt::format("field 'preference': found {}, expected a list or an "
                                           "object",
                                           describe(preference)));
        continue;
      }
      const std::vector<double> values = read_values(preference, raw.line, objectives, findings);
      if (!values.empty()) {
        rows.add(raw.line, client.is_string() ? client.get<std::string>() : client.dump(), values);
      }
    } catch (const JsonProblem& problem) {
      findings.add(raw.line, fmt::format("{}: {}", problem.reason, problem.what()));
    }
  }
}

}  // namespace

std::vector<std::vector<double>> read_preference_file(const std::string& path,
                                                      const std::vector<std::string>& clients,
                                                      const std::vector<std::string>& objectives) {
  const FileText file = read_text_file(path);
  Findings findings(path);
  Rows rows(findings);
  const std::string_view text = trimmed(file.text);
  if (text.front() == '{' || text.front() == '[') {
    read_json(file.text, path, objectives, findings, rows);
  } else {
    read_csv(file.text, objectives, findings, rows);
  }
  findings.throw_if_any();
  std::vector<std::vector<double>> preferences;
  for (const std::string& client : clients) {
    const auto found = rows.rows().find(client);
    if (found == rows.rows().end()) {
      findings.add(fmt::format("no row for client '{}'", client));
      continue;
    }
    preferences.push_back(found->second);
  }
  findings.throw_if_any();
  return preferences;
}

}  // namespace apo::data
