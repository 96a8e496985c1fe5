#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "results_rows.hpp"

namespace apo::cli {
namespace {

/// "section.key" -> value of a configuration as config::to_ini() writes it.
std::map<std::string, std::string> settings_of(const std::string& configuration) {
  std::map<std::string, std::string> settings;
  std::string section;
  std::string_view rest = configuration;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.starts_with('[') && line.ends_with(']')) {
      section = std::string(line.substr(1, line.size() - 2));
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || line.starts_with('#')) {
      continue;
    }
    const auto trimmed = [](std::string_view text) {
      const auto begin = text.find_first_not_of(' ');
      return begin == std::string_view::npos
                 ? std::string()
                 : std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
    };
    settings[section + "." + trimmed(line.substr(0, equals))] = trimmed(line.substr(equals + 1));
  }
  return settings;
}

/// Whether a key says what was computed, and not by which machine or how often it was saved.
bool is_setting(const std::string& key) {
  return !key.starts_with("runtime.") && !key.starts_with("checkpoint.") &&
         !key.starts_with("monitor.");
}

/// Position in tables: what is not trained, baselines, parts of the method, the method.
int method_rank(std::string_view label) {
  constexpr std::array<std::string_view, 15> kOrder = {
      "base",    "rewarded_soup", "ric",    "fspo",        "ditto",
      "fedavg",  "ifca",          "fsmgda", "server_mgda", "fedmgda_plus",
      "fedcmoo", "fedcmoo_pref",  "firm",   "lambda",      "apo"};
  const std::string_view method = label.substr(0, label.find(' '));
  const auto found = std::find(kOrder.begin(), kOrder.end(), method);
  if (found != kOrder.end()) {
    return 2 * static_cast<int>(found - kOrder.begin());
  }
  // "apo+mgda" stands before "apo", and what is unknown at the end.
  const auto part = std::find(kOrder.begin(), kOrder.end(), method.substr(0, method.find('+')));
  return 2 * static_cast<int>(part - kOrder.begin()) - 1;
}

/// Takes a number off the front of a text. @return nothing when it does not begin with a digit
std::optional<double> take_number(std::string_view& text) {
  double number = 0.0;
  if (text.empty() || text[0] < '0' || text[0] > '9') {
    return std::nullopt;
  }
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
  return number;
}

/// Less, with numbers compared by value: "budget=4" before "budget=16", "0.005" before "0.01".
bool natural_before(const std::string& a, const std::string& b) {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    std::string_view after_a = rest_a;
    std::string_view after_b = rest_b;
    const std::optional<double> x = take_number(after_a);
    const std::optional<double> y = take_number(after_b);
    if (x && y) {
      if (*x != *y) {
        return *x < *y;
      }
      rest_a = after_a;
      rest_b = after_b;
    } else if (rest_a[0] != rest_b[0]) {
      return rest_a[0] < rest_b[0];
    } else {
      rest_a.remove_prefix(1);
      rest_b.remove_prefix(1);
    }
  }
  return rest_a.size() != rest_b.size() ? rest_a.size() < rest_b.size() : a < b;
}

}  // namespace

std::vector<std::string> run_labels(const std::vector<RunResults>& runs) {
  std::vector<std::map<std::string, std::string>> settings;
  std::map<std::string, std::map<std::string, std::set<std::string>>> values;  // method, key
  for (const RunResults& run : runs) {
    settings.push_back(settings_of(run.configuration));
    for (const auto& [key, value] : settings.back()) {
      if (is_setting(key)) {
        values[run.method][key].insert(value);
      }
    }
  }
  std::vector<std::string> labels;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::string label = runs[r].method;
    for (const auto& [key, found] : values[runs[r].method]) {
      if (found.size() > 1) {
        label += " " + key + "=" + settings[r][key];
      }
    }
    labels.push_back(std::move(label));
  }
  return labels;
}

std::string setting(const RunResults& run, const std::string& key) {
  const auto settings = settings_of(run.configuration);
  const auto found = settings.find(key);
  return found == settings.end() ? std::string() : found->second;
}

bool label_before(const std::string& a, const std::string& b) {
  const int rank_a = method_rank(a);
  const int rank_b = method_rank(b);
  return rank_a != rank_b ? rank_a < rank_b : natural_before(a, b);
}

}  // namespace apo::cli
