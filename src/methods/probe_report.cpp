/// @file
/// The probe's report as text, Markdown or JSON.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apo/methods/probe.hpp"

namespace apo::methods {
namespace {

constexpr const char* kIntroduction =
    "The theory monitors on analytic tasks, float64. 'pass' and 'FAIL' judge statements that are\n"
    "guaranteed (=>); a statement that no case put to the test fails. 'measured' counts how often "
    "a\n"
    "statement that is not guaranteed (->) was violated.\n";

std::string worst_text(const ProbeCheck& check) {
  if (check.verdict == Verdict::kMeasured) {
    return check.cases == 0
               ? "-"
               : fmt::format("{:.2f} % violated", 100.0 * static_cast<double>(check.violations) /
                                                      static_cast<double>(check.cases));
  }
  if (check.worst_of.empty()) {
    return "-";
  }
  return fmt::format("{} {:.3g}", check.worst_of, check.worst);
}

ProbeTable check_table(const ProbeReport& report) {
  ProbeTable table{
      "Statements", {"id", "statement", "tested on", "cases", "violated", "worst", "verdict"}, {}};
  for (const ProbeCheck& check : report.checks) {
    table.rows.push_back({check.id, check.statement, check.tested_on, std::to_string(check.cases),
                          std::to_string(check.violations), worst_text(check),
                          verdict_name(check.verdict)});
  }
  return table;
}

std::string text_table(const ProbeTable& table) {
  std::vector<std::size_t> width(table.head.size());
  for (std::size_t c = 0; c < table.head.size(); ++c) {
    width[c] = table.head[c].size();
    for (const auto& row : table.rows) {
      width[c] = std::max(width[c], row[c].size());
    }
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      text += fmt::format("{:<{}}  ", cells[c], width[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string out = table.title + "\n" + line(table.head);
  for (const auto& row : table.rows) {
    out += line(row);
  }
  return out;
}

std::string markdown_table(const ProbeTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& raw : cells) {
      std::string cell;
      for (const char c : raw) {
        cell += c == '|' || c == '*' || c == '\\' ? std::string("\\") + c : std::string(1, c);
      }
      text += " " + cell + " |";
    }
    return text + "\n";
  };
  std::string out = "**" + table.title + "**\n\n" + line(table.head) + "|";
  for (std::size_t c = 0; c < table.head.size(); ++c) {
    out += " --- |";
  }
  out += "\n";
  for (const auto& row : table.rows) {
    out += line(row);
  }
  return out;
}

std::string summary(const ProbeReport& report) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(report.checks.begin(), report.checks.end(),
                         [&](const ProbeCheck& check) { return check.verdict == verdict; });
  };
  const ProbeCheck* failure = report.first_failure();
  return fmt::format("{} of {} guaranteed statements held, {} measured (seed {}, cases {})\n{}",
                     count(Verdict::kPass), count(Verdict::kPass) + count(Verdict::kFail),
                     count(Verdict::kMeasured), report.options.seed, report.options.cases,
                     failure == nullptr ? "" : "FAIL: " + failure_line(*failure) + "\n");
}

nlohmann::json json_of(const ProbeReport& report) {
  nlohmann::json checks = nlohmann::json::array();
  for (const ProbeCheck& check : report.checks) {
    nlohmann::json row = {{"id", check.id},
                          {"statement", check.statement},
                          {"tested_on", check.tested_on},
                          {"cases", check.cases},
                          {"violations", check.violations},
                          {"worst_of", check.worst_of},
                          {"verdict", verdict_name(check.verdict)}};
    row["worst"] = std::isfinite(check.worst) ? nlohmann::json(check.worst) : nlohmann::json();
    checks.push_back(std::move(row));
  }
  nlohmann::json tables = nlohmann::json::array();
  for (const ProbeTable& table : report.tables) {
    tables.push_back({{"title", table.title}, {"head", table.head}, {"rows", table.rows}});
  }
  return {{"seed", report.options.seed},
          {"cases", report.options.cases},
          {"passed", report.first_failure() == nullptr},
          {"checks", std::move(checks)},
          {"tables", std::move(tables)}};
}

}  // namespace

std::string verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kMeasured:
      return "measured";
  }
  return "?";
}

std::string failure_line(const ProbeCheck& check) {
  if (check.cases == 0) {
    return fmt::format("{}: {} ({}): no case put it to the test; raise --cases", check.id,
                       check.statement, check.tested_on);
  }
  return fmt::format(
      "{}: {} ({}): {} of {} cases violated{}", check.id, check.statement, check.tested_on,
      check.violations, check.cases,
      check.worst_of.empty() ? "" : fmt::format(", worst {} {:.3g}", check.worst_of, check.worst));
}

std::string format_report(const ProbeReport& report, ProbeFormat format) {
  if (format == ProbeFormat::kJson) {
    return json_of(report).dump(2) + "\n";
  }
  const bool text = format == ProbeFormat::kText;
  const auto formatted = [&](const ProbeTable& table) {
    return text ? text_table(table) : markdown_table(table);
  };
  std::string out = std::string(kIntroduction) + "\n" + formatted(check_table(report));
  for (const ProbeTable& table : report.tables) {
    out += "\n" + formatted(table);
  }
  return out + "\n" + summary(report);
}

}  // namespace apo::methods
