#include "results_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace apo::cli {
namespace {

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

std::string render(const std::vector<TextTable>& tables, TableFormat format) {
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

std::string cell(double x) { return std::isnan(x) ? "-" : fmt::format("{:.3f}", x); }

std::string small_cell(double x) { return std::isnan(x) ? "-" : fmt::format("{:.4g}", x); }

std::string interval_cell(double low, double high, const std::string& number) {
  if (!std::isfinite(low) || !std::isfinite(high)) {
    return "-";
  }
  return fmt::format("[{}, {}]", fmt::format(fmt::runtime(number), low),
                     fmt::format(fmt::runtime(number), high));
}

}  // namespace apo::cli
