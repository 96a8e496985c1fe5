#pragma once

/// @file
/// The option table: one row per configuration key makes the default, the parser, the range check,
/// the help text and the README's reference. Rooms declare rows into it; config reads them.

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace apo {

/// One configuration key, e.g. "phase1.learning_rate".
struct Field {
  std::string key;           ///< section.name
  std::string type;          ///< "integer", "real", "text", "true|false", "a|b|c", "list"
  std::string range;         ///< "[1, 512]"; empty when anything goes
  std::string unit;          ///< "nat", "rounds", ...; may be empty
  std::string help;          ///< one sentence
  std::string default_text;  ///< empty and required, or the default as it would be written
  bool required = false;
  /// Parses and stores; returns what is wrong ("expected a real number in (0, 1], found 'x'").
  std::function<std::optional<std::string>(std::string_view)> set;
  std::function<std::string()> get;  ///< the present value as it would be written
};

struct IntegerRange {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};
struct RealRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  ///< low itself is refused
};

/// Rows in declaration order. Targets must outlive the table.
class FieldTable {
 public:
  void integer(std::string key, std::int64_t& target, IntegerRange range, std::string unit,
               std::string help);
  void integer(std::string key, int& target, IntegerRange range, std::string unit,
               std::string help);
  void unsigned_required(std::string key, std::optional<std::uint64_t>& target, std::string help);
  void real(std::string key, double& target, RealRange range, std::string unit, std::string help);
  void text(std::string key, std::string& target, std::string help, bool required = false);
  void flag(std::string key, bool& target, std::string help);
  void choice(std::string key, std::string& target, std::vector<std::string> choices,
              std::string help);
  void list(std::string key, std::vector<std::string>& target, std::string help,
            bool required = false, std::vector<std::string> choices = {});
  void integer_list(std::string key, std::vector<int>& target, IntegerRange range,
                    std::string help);
  void real_list(std::string key, std::vector<double>& target, RealRange range, std::string help);

  [[nodiscard]] const std::deque<Field>& fields() const { return fields_; }
  [[nodiscard]] const Field* find(std::string_view key) const;

 private:
  Field& add(std::string key, std::string type, std::string range, std::string unit,
             std::string help);
  std::deque<Field> fields_;
};

}  // namespace apo
