#include "results_score_range.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apo/core/durable_file.hpp"
#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

constexpr const char* kFormat = "apo score range";
constexpr std::int64_t kVersion = 1;
constexpr std::uintmax_t kMaxBytes = std::uintmax_t{1} << 20;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file.string()) {}

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(Fault::kData,
                fmt::format("{}: not a score range of apo report: {}", file_, problem));
  }

  /// A member of an object, of the type that is asked for.
  const nlohmann::json& member(const nlohmann::json& object, const char* name,
                               bool (*fits)(const nlohmann::json&), const char* expected) const {
    const auto found = object.find(name);
    if (found == object.end() || !fits(*found)) {
      refuse(fmt::format("expected \"{}\" with {}, found {}", name, expected,
                         found == object.end() ? "nothing" : found->dump()));
    }
    return *found;
  }

 private:
  std::string file_;
};

bool is_text(const nlohmann::json& x) { return x.is_string(); }
bool is_list(const nlohmann::json& x) { return x.is_array() && !x.empty(); }
bool is_count(const nlohmann::json& x) {
  return x.is_number_integer() && x.get<std::int64_t>() >= 0;
}
bool is_finite(const nlohmann::json& x) { return x.is_number() && std::isfinite(x.get<double>()); }

}  // namespace

void write_score_range(const std::filesystem::path& file, const FrozenRange& range) {
  nlohmann::ordered_json ranges = nlohmann::ordered_json::array();
  for (std::size_t j = 0; j < range.range.size(); ++j) {
    ranges.push_back({{"objective", range.objectives[j]},
                      {"min", range.range[j].low},
                      {"max", range.range[j].high}});
  }
  nlohmann::ordered_json document;
  document["format"] = kFormat;
  document["format_version"] = kVersion;
  document["score"] = range.score;
  document["num_solutions"] = range.num_solutions;
  document["ranges"] = std::move(ranges);
  publish_text_file(file, document.dump(2) + "\n");
}

FrozenRange read_score_range(const std::filesystem::path& file) {
  const Reader reader(file);
  const nlohmann::json document =
      nlohmann::json::parse(read_text_file(file, kMaxBytes), nullptr, false);
  if (!document.is_object()) {
    reader.refuse("expected a JSON object");
  }
  const std::string format = reader.member(document, "format", is_text, "a text");
  const std::int64_t version = reader.member(document, "format_version", is_count, "a number");
  if (format != kFormat || version != kVersion) {
    reader.refuse(fmt::format("expected format '{}' version {}, found '{}' version {}", kFormat,
                              kVersion, format, version));
  }
  FrozenRange range;
  range.score = reader.member(document, "score", is_text, "a text");
  range.num_solutions = reader.member(document, "num_solutions", is_count, "a count");
  for (const nlohmann::json& entry : reader.member(document, "ranges", is_list, "a list")) {
    if (!entry.is_object()) {
      reader.refuse("expected objects in \"ranges\", found " + entry.dump());
    }
    range.objectives.push_back(reader.member(entry, "objective", is_text, "a text"));
    range.range.push_back({reader.member(entry, "min", is_finite, "a finite number"),
                           reader.member(entry, "max", is_finite, "a finite number")});
    if (range.range.back().high < range.range.back().low) {
      reader.refuse(fmt::format("objective '{}' has min {} above max {}", range.objectives.back(),
                                range.range.back().low, range.range.back().high));
    }
  }
  return range;
}

}  // namespace apo::cli
