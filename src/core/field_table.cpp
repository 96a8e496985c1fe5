#include "apo/core/field_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"

namespace apo {
namespace {

using Problem = std::optional<std::string>;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Comma-separated entries, trimmed. Blank text is an empty list.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> entries;
  text = trimmed(text);
  while (!text.empty()) {
    const auto comma = text.find(',');
    entries.push_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) {
      return entries;
    }
    text.remove_prefix(comma + 1);
    if (text.empty()) {
      entries.emplace_back();  // "a," has an empty last entry, which is reported
    }
  }
  return entries;
}

std::string found(std::string_view text) {
  return text.empty() ? "found nothing" : fmt::format("found '{}'", text);
}

std::string in_range(const std::string& range) { return range.empty() ? "" : " in " + range; }

std::string range_text(IntegerRange range) {
  const bool low = range.low != std::numeric_limits<std::int64_t>::min();
  const bool high = range.high != std::numeric_limits<std::int64_t>::max();
  if (!low && !high) {
    return {};
  }
  return (low ? fmt::format("[{}", range.low) : "(-inf") + ", " +
         (high ? fmt::format("{}]", range.high) : "inf)");
}

std::string range_text(RealRange range) {
  const bool low = std::isfinite(range.low);
  const bool high = std::isfinite(range.high);
  if (!low && !high) {
    return {};
  }
  return (low ? fmt::format("{}{}", range.low_open ? '(' : '[', range.low) : "(-inf") + ", " +
         (high ? fmt::format("{}]", range.high) : "inf)");
}

template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> parse(std::string_view text, IntegerRange range) {
  const auto value = whole_number<std::int64_t>(text);
  return value && *value >= range.low && *value <= range.high ? value : std::nullopt;
}

std::optional<double> parse(std::string_view text, RealRange range) {
  const auto value = whole_number<double>(text);
  if (!value || !std::isfinite(*value) || *value > range.high || *value < range.low ||
      (range.low_open && *value == range.low)) {
    return std::nullopt;
  }
  return value;
}

/// "0.1" parses back to the same double: fmt prints the shortest text that does.
template <class Values>
std::string joined(const Values& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

/// Why a text cannot be written in an INI file and read back, if so.
Problem unwritable(std::string_view text) {
  if (text.find_first_of("#\r\n") != std::string_view::npos) {
    return fmt::format("'#' and line breaks cannot stand in a value, found '{}'", text);
  }
  return std::nullopt;
}

std::string joined_choices(const std::vector<std::string>& choices) {
  return fmt::format("{}", fmt::join(choices, "|"));
}

std::string no_such_choice(const std::vector<std::string>& choices, std::string_view text) {
  std::string message = fmt::format("expected one of {}, {}", joined_choices(choices), found(text));
  if (const std::string near = nearest_word(text, choices); !near.empty()) {
    message += fmt::format("; did you mean '{}'?", near);
  }
  return message;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

Field& FieldTable::add(std::string key, std::string type, std::string range, std::string unit,
                       std::string help) {
  expects(find(key) == nullptr, "configuration key declared twice: " + key);
  expects(key.find('.') != std::string::npos, "configuration key without a section: " + key);
  Field& field = fields_.emplace_back();
  field.key = std::move(key);
  field.type = std::move(type);
  field.range = std::move(range);
  field.unit = std::move(unit);
  field.help = std::move(help);
  return field;
}

const Field* FieldTable::find(std::string_view key) const {
  const auto row = std::find_if(fields_.begin(), fields_.end(),
                                [key](const Field& field) { return field.key == key; });
  return row == fields_.end() ? nullptr : &*row;
}

void FieldTable::integer(std::string key, std::int64_t& target, IntegerRange range,
                         std::string unit, std::string help) {
  const std::string limits = range_text(range);
  Field& field = add(std::move(key), "integer", limits, std::move(unit), std::move(help));
  field.get = [&target] { return fmt::format("{}", target); };
  field.set = [&target, range, limits](std::string_view text) -> Problem {
    text = trimmed(text);
    const auto value = parse(text, range);
    if (!value) {
      return fmt::format("expected an integer{}, {}", in_range(limits), found(text));
    }
    target = *value;
    return std::nullopt;
  };
  field.default_text = field.get();
}

void FieldTable::integer(std::string key, int& target, IntegerRange range, std::string unit,
                         std::string help) {
  range.low = std::max<std::int64_t>(range.low, std::numeric_limits<int>::min());
  range.high = std::min<std::int64_t>(range.high, std::numeric_limits<int>::max());
  const std::string limits = range_text(range);
  Field& field = add(std::move(key), "integer", limits, std::move(unit), std::move(help));
  field.get = [&target] { return fmt::format("{}", target); };
  field.set = [&target, range, limits](std::string_view text) -> Problem {
    text = trimmed(text);
    const auto value = parse(text, range);
    if (!value) {
      return fmt::format("expected an integer{}, {}", in_range(limits), found(text));
    }
    target = static_cast<int>(*value);
    return std::nullopt;
  };
  field.default_text = field.get();
}

void FieldTable::unsigned_required(std::string key, std::optional<std::uint64_t>& target,
                                   std::string help) {
  Field& field = add(std::move(key), "integer", "[0, 2^64)", "", std::move(help));
  field.required = true;
  field.get = [&target] { return target ? fmt::format("{}", *target) : std::string(); };
  field.set = [&target](std::string_view text) -> Problem {
    text = trimmed(text);
    const auto value = whole_number<std::uint64_t>(text);
    if (!value) {
      return fmt::format("expected an integer in [0, 2^64), {}", found(text));
    }
    target = *value;
    return std::nullopt;
  };
}

void FieldTable::real(std::string key, double& target, RealRange range, std::string unit,
                      std::string help) {
  const std::string limits = range_text(range);
  Field& field = add(std::move(key), "real", limits, std::move(unit), std::move(help));
  field.get = [&target] { return fmt::format("{}", target); };
  field.set = [&target, range, limits](std::string_view text) -> Problem {
    text = trimmed(text);
    const auto value = parse(text, range);
    if (!value) {
      return fmt::format("expected a real number{}, {}", in_range(limits), found(text));
    }
    target = *value;
    return std::nullopt;
  };
  field.default_text = field.get();
}

void FieldTable::text(std::string key, std::string& target, std::string help, bool required) {
  Field& field = add(std::move(key), "text", "", "", std::move(help));
  field.required = required;
  field.get = [&target] { return target; };
  field.set = [&target, required](std::string_view text) -> Problem {
    text = trimmed(text);
    if (required && text.empty()) {
      return "expected text, found nothing";
    }
    if (auto problem = unwritable(text)) {
      return problem;
    }
    target = text;
    return std::nullopt;
  };
  field.default_text = required ? "" : field.get();
}

void FieldTable::flag(std::string key, bool& target, std::string help) {
  Field& field = add(std::move(key), "true|false", "", "", std::move(help));
  field.get = [&target] { return std::string(target ? "true" : "false"); };
  field.set = [&target](std::string_view text) -> Problem {
    text = trimmed(text);
    if (text != "true" && text != "false") {
      return "expected true or false, " + found(text);
    }
    target = text == "true";
    return std::nullopt;
  };
  field.default_text = field.get();
}

void FieldTable::choice(std::string key, std::string& target, std::vector<std::string> choices,
                        std::string help) {
  expects(contains(choices, target), "default of " + key + " is not one of its choices");
  Field& field = add(std::move(key), joined_choices(choices), "", "", std::move(help));
  field.get = [&target] { return target; };
  field.set = [&target, choices = std::move(choices)](std::string_view text) -> Problem {
    text = trimmed(text);
    if (!contains(choices, text)) {
      return no_such_choice(choices, text);
    }
    target = text;
    return std::nullopt;
  };
  field.default_text = field.get();
}

void FieldTable::list(std::string key, std::vector<std::string>& target, std::string help,
                      bool required, std::vector<std::string> choices) {
  const std::string type = choices.empty() ? "list" : "list of " + joined_choices(choices);
  Field& field = add(std::move(key), type, "", "", std::move(help));
  field.required = required;
  field.get = [&target] { return joined(target); };
  field.set = [&target, required, choices = std::move(choices)](std::string_view text) -> Problem {
    std::vector<std::string> values;
    for (const std::string_view entry : split_list(text)) {
      if (entry.empty()) {
        return fmt::format("has an empty entry: '{}'", trimmed(text));
      }
      if (!choices.empty() && !contains(choices, entry)) {
        return no_such_choice(choices, entry);
      }
      if (contains(values, entry)) {
        return fmt::format("lists '{}' twice", entry);
      }
      if (auto problem = unwritable(entry)) {
        return problem;
      }
      values.emplace_back(entry);
    }
    if (required && values.empty()) {
      return "expected at least one entry, found nothing";
    }
    target = std::move(values);
    return std::nullopt;
  };
  field.default_text = required ? "" : field.get();
}

void FieldTable::integer_list(std::string key, std::vector<int>& target, IntegerRange range,
                              std::string help) {
  range.low = std::max<std::int64_t>(range.low, std::numeric_limits<int>::min());
  range.high = std::min<std::int64_t>(range.high, std::numeric_limits<int>::max());
  const std::string limits = range_text(range);
  Field& field = add(std::move(key), "list of integers", limits, "", std::move(help));
  field.get = [&target] { return joined(target); };
  field.set = [&target, range, limits](std::string_view text) -> Problem {
    std::vector<int> values;
    for (const std::string_view entry : split_list(text)) {
      const auto value = parse(entry, range);
      if (!value) {
        return fmt::format("expected integers{}, {}", in_range(limits), found(entry));
      }
      const int number = static_cast<int>(*value);
      if (std::find(values.begin(), values.end(), number) != values.end()) {
        return fmt::format("lists {} twice", number);
      }
      values.push_back(number);
    }
    target = std::move(values);
    return std::nullopt;
  };
  field.default_text = field.get();
}

void FieldTable::real_list(std::string key, std::vector<double>& target, RealRange range,
                           std::string help) {
  const std::string limits = range_text(range);
  Field& field = add(std::move(key), "list of reals", limits, "", std::move(help));
  field.get = [&target] { return joined(target); };
  field.set = [&target, range, limits](std::string_view text) -> Problem {
    std::vector<double> values;
    for (const std::string_view entry : split_list(text)) {
      const auto value = parse(entry, range);
      if (!value) {
        return fmt::format("expected real numbers{}, {}", in_range(limits), found(entry));
      }
      values.push_back(*value);
    }
    target = std::move(values);
    return std::nullopt;
  };
  field.default_text = field.get();
}

}  // namespace apo
