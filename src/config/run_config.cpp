#include "apo/config/run_config.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "consistency.hpp"
#include "ini_file.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"

namespace apo::config {
namespace {

std::string_view section_of(std::string_view key) { return key.substr(0, key.find('.')); }
std::string_view name_of(std::string_view key) { return key.substr(key.find('.') + 1); }

/// The known key that was probably meant: nearest as a whole, or the same name in another section.
std::string suggestion(const FieldTable& table, std::string_view key) {
  std::vector<std::string> keys;
  for (const Field& field : table.fields()) {
    keys.push_back(field.key);
  }
  std::string best = nearest_word(key, keys);
  if (best.empty() || edit_distance(key, best) > 2) {
    for (const std::string& known : keys) {
      if (name_of(known) == name_of(key)) {
        best = known;
      }
    }
  }
  return best;
}

/// Fills a RunConfig and remembers everything that went wrong on the way.
class Loader {
 public:
  explicit Loader(FieldTable& table) : table_(table) {}

  void set(const std::string& key, const std::string& value, const std::string& place) {
    const Field* field = table_.find(key);
    if (field == nullptr) {
      std::string message = fmt::format("{}: unknown key '{}'", place, key);
      if (const std::string near = suggestion(table_, key); !near.empty()) {
        message += fmt::format("; did you mean '{}'?", near);
      }
      problems_.push_back(std::move(message));
      return;
    }
    given_.insert(key);
    if (const auto problem = field->set(value)) {
      problems_.push_back(fmt::format("{}: {}: {}", place, key, *problem));
      bad_.insert(key);
    }
  }

  void set_from_file(const std::filesystem::path& file) {
    const IniFile ini = read_ini(file);
    problems_.insert(problems_.end(), ini.problems.begin(), ini.problems.end());
    std::map<std::string, int> first_line;
    for (const IniEntry& entry : ini.entries) {
      const std::string place = fmt::format("{}:{}", file.string(), entry.line);
      const auto [earlier, is_new] = first_line.emplace(entry.key, entry.line);
      if (!is_new) {
        problems_.push_back(
            fmt::format("{}: '{}' was set before, in line {}", place, entry.key, earlier->second));
        continue;
      }
      set(entry.key, entry.value, place);
    }
  }

  /// @param sections_unused  sections whose keys this configuration does not need
  void require_all(const std::set<std::string_view>& sections_unused) {
    for (const Field& field : table_.fields()) {
      if (field.required && !given_.contains(field.key) &&
          !sections_unused.contains(section_of(field.key))) {
        problems_.push_back(fmt::format("missing required key '{}' ({})", field.key, field.help));
        bad_.insert(field.key);
      }
    }
  }

  /// Checks that rest on a value that is wrong anyway are left out.
  void add(const std::vector<Conflict>& conflicts) {
    for (const Conflict& conflict : conflicts) {
      if (std::none_of(conflict.keys.begin(), conflict.keys.end(),
                       [this](const std::string& key) { return bad_.contains(key); })) {
        problems_.push_back(conflict.message);
      }
    }
  }

  void throw_if_any() const {
    if (!problems_.empty()) {
      throw Error(Fault::kConfig, fmt::format("{}", fmt::join(problems_, "\n")));
    }
  }

 private:
  FieldTable& table_;
  std::vector<std::string> problems_;
  std::set<std::string> given_;
  std::set<std::string> bad_;
};

}  // namespace

FieldTable make_field_table(RunConfig& config) {
  FieldTable table;
  methods::declare(table, config.method);
  objective::declare(table, config.analytic);
  model::declare(table, config.model);
  model::declare(table, config.lora);
  data::declare(table, config.data);
  clustering::declare(table, config.clustering);
  objective::declare(table, config.dpo);
  direction::declare(table, config.direction);
  federation::declare(table, config.phase1);
  federation::declare(table, config.phase2);
  federation::declare(table, config.adapt);
  federation::declare(table, config.baseline);
  federation::declare(table, config.monitor);
  methods::declare(table, config.evaluate);
  methods::declare(table, config.fspo);
  methods::declare(table, config.ditto);
  store::declare(table, config.checkpoint);
  comm::declare(table, config.runtime);
  return table;
}

RunConfig load_run_config(const std::filesystem::path& file,
                          const std::vector<std::pair<std::string, std::string>>& overrides) {
  RunConfig config;
  FieldTable table = make_field_table(config);
  Loader loader(table);
  loader.set_from_file(file);
  for (const auto& [key, value] : overrides) {
    loader.set(key, value, "command line");
  }
  loader.require_all(config.method.task == "analytic" ? std::set<std::string_view>{"model", "data"}
                                                      : std::set<std::string_view>{});
  loader.add(find_conflicts(config));
  loader.throw_if_any();
  return config;
}

std::string to_ini(const RunConfig& config) {
  RunConfig copy = config;  // a table binds to a configuration that it may change
  std::string ini;
  std::string_view section;
  const FieldTable table = make_field_table(copy);
  for (const Field& field : table.fields()) {
    if (section_of(field.key) != section) {
      section = section_of(field.key);
      ini += fmt::format("{}[{}]\n", ini.empty() ? "" : "\n", section);
    }
    const std::string value = field.get();
    ini += fmt::format("{} ={}{}\n", name_of(field.key), value.empty() ? "" : " ", value);
  }
  return ini;
}

}  // namespace apo::config
