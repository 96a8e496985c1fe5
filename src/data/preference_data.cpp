#include "apo/data/preference_data.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>

#include "json_text.hpp"
#include "read_bytes.hpp"
#include "row_parser.hpp"
#include "row_source.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"
#include "apo/core/sha256.hpp"

namespace apo::data {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxListedRows = 20;
constexpr const char* kNotInUse = "objective not in use";

[[noreturn]] void fail_shape(const std::string& file, const std::string& found,
                             const std::string& wanted) {
  throw Error(Fault::kData, fmt::format("{}: found {}; expected {}", file, found, wanted));
}

constexpr const char* kShapesRead =
    "rows {prompt, chosen, rejected} with text or message lists, hh-rlhf dialogues {chosen, "
    "rejected}, or one object client -> rows (FedLLM-Bench); optional fields are objective, "
    "client, split and meta";

class Loader {
 public:
  explicit Loader(const DataOptions& options) : options_(options) {
    data_.objectives = options.objectives;
    used_rows_.assign(options.objectives.size(), 0);
  }

  PreferenceData load() {
    check_options();
    Sha256 digest;
    for (std::size_t i = 0; i < options_.files.size(); ++i) {
      const FileText file = read_text_file(options_.files[i]);
      digest.update(file.raw);
      load_file(static_cast<int>(i), file.text);
    }
    data_.sha256 = digest.hex();
    if (num_bad_rows_ > 0 && options_.on_bad_row == "error") {
      throw_bad_rows();
    }
    check_objectives();
    count_duplicates();
    return std::move(data_);
  }

 private:
  void check_options() const {
    if (options_.files.empty()) {
      throw Error(Fault::kConfig, "data.files: names no file, expected at least one");
    }
    if (options_.objectives.empty()) {
      throw Error(Fault::kConfig, "data.objectives: names no objective, expected at least one");
    }
    const std::set<std::string> distinct(options_.objectives.begin(), options_.objectives.end());
    if (distinct.size() != options_.objectives.size()) {
      throw Error(Fault::kConfig, fmt::format("data.objectives: an objective stands twice in {}",
                                              fmt::join(options_.objectives, ", ")));
    }
  }

  void load_file(int file_index, std::string_view text) {
    const std::string& file = options_.files[static_cast<std::size_t>(file_index)];
    const RawRows raw = split_rows(text, file);
    check_container(raw, file);
    std::optional<RowShape> shape;
    std::optional<std::string> unknown_keys;
    std::vector<std::pair<const RawRow*, json>> waiting;  // rows before the first of a known shape
    for (const RawRow& row : raw.rows) {
      std::optional<json> parsed = parse(row, text, file);
      if (!parsed) {
        continue;
      }
      if (!shape) {
        shape = determine_shape(*parsed, row, file);
        if (!shape) {
          unknown_keys = unknown_keys.value_or(describe(*parsed));
          waiting.emplace_back(&row, std::move(*parsed));
          continue;
        }
        for (const auto& [early_row, early] : waiting) {
          take(early, *early_row, file_index, *shape);
        }
      }
      take(*parsed, row, file_index, *shape);
    }
    if (!shape && unknown_keys) {
      fail_shape(file, "rows of no known shape: " + *unknown_keys, kShapesRead);
    }
    if (raw.rows.empty()) {
      throw Error(Fault::kData, fmt::format("{}: holds no row", file));
    }
  }

  void check_container(const RawRows& raw, const std::string& file) const {
    const bool clients = raw.container == Container::kClientObject;
    if (options_.format == "fedllm" && !clients) {
      fail_shape(file, raw.container == Container::kJsonList ? "a JSON list" : "JSON lines",
                 "one JSON object client -> rows (data.format = fedllm)");
    }
    if (clients && options_.format != "fedllm" && options_.format != "auto") {
      fail_shape(file, "one JSON object client -> rows (FedLLM-Bench)",
                 fmt::format("rows (data.format = {})", options_.format));
    }
  }

  std::optional<json> parse(const RawRow& row, std::string_view text, const std::string& file) {
    try {
      json parsed = parse_json(row.text);
      if (!parsed.is_object()) {
        throw RowProblem("not an object", "", describe(parsed), "an object");
      }
      return parsed;
    } catch (const JsonProblem& problem) {
      const auto begin = static_cast<std::size_t>(row.text.data() - text.data());
      const TextPosition where = position_of(row.text, std::min(problem.offset, row.text.size()));
      const TextPosition start = position_of(text.substr(text.rfind('\n', begin) + 1),
                                             begin - (text.rfind('\n', begin) + 1));
      report(
          row, file,
          RowProblem(problem.reason, "",
                     fmt::format("line {}, column {}: {}", row.line + where.line - 1,
                                 where.line == 1 ? start.column + where.column - 1 : where.column,
                                 problem.what()),
                     "one JSON object"));
    } catch (const RowProblem& problem) {
      report(row, file, problem);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<RowShape> determine_shape(const json& row, const RawRow& where,
                                                        const std::string& file) const {
    const ShapeFinding finding = find_shape(row);
    if (!finding.refused.empty()) {
      fail_shape(file, fmt::format("rows in the shape of {} (row {})", finding.refused, where.row),
                 std::string(kShapesRead) + "; convert the file first");
    }
    if (options_.format == "hh_rlhf") {
      return RowShape::kHhRlhf;
    }
    if (options_.format == "pairs" || options_.format == "conversational") {
      return RowShape::kNeutral;
    }
    return finding.shape;
  }

  [[nodiscard]] TextForm text_form() const {
    if (options_.format == "pairs") {
      return TextForm::kStrings;
    }
    return options_.format == "conversational" ? TextForm::kMessages : TextForm::kAny;
  }

  void take(const json& row, const RawRow& where, int file_index, RowShape shape) {
    const std::string& file = options_.files[static_cast<std::size_t>(file_index)];
    try {
      const std::string name = read_objective(row, options_.objectives);
      ++found_objectives_[name];
      const auto used = std::find(options_.objectives.begin(), options_.objectives.end(), name);
      if (used == options_.objectives.end()) {
        ++data_.dropped[kNotInUse];
        return;
      }
      PreferencePair pair = parse_row(row, shape, text_form());
      pair.objective = static_cast<int>(used - options_.objectives.begin());
      pair.file = file_index;
      pair.row = where.row;
      if (where.client) {
        if (!pair.client.empty() && pair.client != *where.client) {
          throw RowProblem("two clients", "client", fmt::format("'{}'", pair.client),
                           fmt::format("the row's key '{}'", *where.client));
        }
        pair.client = *where.client;
      }
      ++used_rows_[static_cast<std::size_t>(pair.objective)];
      data_.pairs.push_back(std::move(pair));
    } catch (const RowProblem& problem) {
      report(where, file, problem);
    }
  }

  void report(const RawRow& row, const std::string& file, const RowProblem& problem) {
    ++num_bad_rows_;
    ++data_.dropped[problem.reason];
    if (bad_rows_.size() >= kMaxListedRows) {
      return;
    }
    const std::string client = row.client ? fmt::format(" (client '{}')", *row.client) : "";
    const std::string field =
        problem.field.empty() ? "" : fmt::format(", field '{}'", problem.field);
    bad_rows_.push_back(fmt::format("{}: row {}{}{}: {}: found {}; expected {}", file, row.row,
                                    client, field, problem.reason, problem.found, problem.wanted));
  }

  [[noreturn]] void throw_bad_rows() const {
    std::string message = fmt::format(
        "{} bad row{} in the preference data (data.on_bad_row = skip leaves them out "
        "and counts them):",
        num_bad_rows_, num_bad_rows_ == 1 ? "" : "s");
    for (const std::string& line : bad_rows_) {
      message += "\n  " + line;
    }
    if (num_bad_rows_ > static_cast<std::int64_t>(bad_rows_.size())) {
      message += fmt::format("\n  and {} more",
                             num_bad_rows_ - static_cast<std::int64_t>(bad_rows_.size()));
    }
    throw Error(Fault::kData, message);
  }

  void check_objectives() const {
    std::string message;
    for (std::size_t j = 0; j < options_.objectives.size(); ++j) {
      const std::string& name = options_.objectives[j];
      if (used_rows_[j] > 0) {
        continue;
      }
      std::vector<std::string> known;
      std::string found;
      for (const auto& [other, count] : found_objectives_) {
        known.push_back(other);
        found += fmt::format("{}{} ({} rows)", found.empty() ? "" : ", ", other, count);
      }
      const auto rows = found_objectives_.find(name);
      const std::string near = rows == found_objectives_.end() ? nearest_word(name, known) : "";
      message += fmt::format("{}data.objectives: no usable row has objective '{}'{}; found {}",
                             message.empty() ? "" : "\n", name,
                             near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                             found.empty() ? "no objective at all" : found);
    }
    if (!message.empty()) {
      throw Error(Fault::kData, message);
    }
  }

  void count_duplicates() {
    const auto same = [](const PreferencePair& a, const PreferencePair& b) {
      return a.client == b.client && a.objective == b.objective && a.prompt == b.prompt &&
             a.chosen == b.chosen && a.rejected == b.rejected;
    };
    std::unordered_multimap<std::size_t, std::size_t> seen;
    std::vector<PreferencePair> kept;
    const bool drop = options_.duplicates == "drop";
    for (std::size_t i = 0; i < data_.pairs.size(); ++i) {
      PreferencePair& pair = data_.pairs[i];
      const std::hash<std::string> hash;
      const std::size_t key = hash(pair.chosen) * 31 + hash(pair.rejected);
      const auto [first, last] = seen.equal_range(key);
      const std::vector<PreferencePair>& earlier = drop ? kept : data_.pairs;
      const bool duplicate = std::any_of(
          first, last, [&](const auto& entry) { return same(earlier[entry.second], pair); });
      if (duplicate) {
        ++data_.num_duplicates;
        continue;
      }
      seen.emplace(key, drop ? kept.size() : i);
      if (drop) {
        kept.push_back(std::move(pair));
      }
    }
    if (drop) {
      data_.pairs = std::move(kept);
      if (data_.num_duplicates > 0) {
        data_.dropped["duplicate"] = data_.num_duplicates;
      }
    }
  }

  const DataOptions& options_;
  PreferenceData data_;
  std::vector<std::int64_t> used_rows_;  // [m]
  std::map<std::string, std::int64_t> found_objectives_;
  std::vector<std::string> bad_rows_;
  std::int64_t num_bad_rows_ = 0;
};

}  // namespace

PreferenceData load_preference_data(const DataOptions& options) { return Loader(options).load(); }

}  // namespace apo::data
