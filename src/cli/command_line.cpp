#include "command_line.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

bool is_option(std::string_view argument) {
  return argument.size() > 1 && argument[0] == '-' &&
         (argument[1] == '-' || (argument[1] >= 'a' && argument[1] <= 'z') ||
          (argument[1] >= 'A' && argument[1] <= 'Z'));
}

}  // namespace

bool CommandLine::has(std::string_view name) const { return value(name).has_value(); }

std::optional<std::string> CommandLine::value(std::string_view name) const {
  const auto last = std::find_if(options.rbegin(), options.rend(),
                                 [name](const auto& option) { return option.first == name; });
  return last == options.rend() ? std::nullopt : std::optional(last->second);
}

CommandLine parse_command_line(const Arguments& arguments, std::initializer_list<Accepted> accepted,
                               bool takes_configuration_keys) {
  CommandLine line;
  std::vector<std::string> problems;
  std::vector<std::string> names;
  for (const Accepted& option : accepted) {
    names.emplace_back(option.name);
  }

  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      line.positionals.insert(line.positionals.end(),
                              arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                              arguments.end());
      break;
    }
    if (!is_option(argument)) {
      line.positionals.push_back(argument);
      continue;
    }

    const bool is_long = argument[1] == '-';
    const auto equals = is_long ? argument.find('=') : std::string::npos;
    const std::string shown = argument.substr(0, equals);
    const std::string name = shown.substr(is_long ? 2 : 1);
    const auto known = std::find_if(accepted.begin(), accepted.end(), [&](const Accepted& option) {
      return is_long ? option.name == name : name.size() == 1 && option.letter == name[0];
    });
    const bool is_key = is_long && takes_configuration_keys && name.find('.') != std::string::npos;
    // An unknown option's value is taken along, so that it is not reported a second time.
    const bool takes_value = known == accepted.end() ? true : known->takes_value;
    std::optional<std::string> value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (takes_value && i + 1 < arguments.size() && !is_option(arguments[i + 1])) {
      value = arguments[++i];
    }

    if (known == accepted.end() && !is_key) {
      std::string message = fmt::format("unknown option '{}'", shown);
      if (const std::string near = nearest_word(name, names); !near.empty()) {
        message += fmt::format("; did you mean '--{}'?", near);
      }
      problems.push_back(std::move(message));
    } else if (takes_value && !value) {
      problems.push_back(fmt::format("option '{}' needs a value", shown));
    } else if (!takes_value && value) {
      problems.push_back(fmt::format("option '{}' takes no value, found '{}'", shown, *value));
    } else if (is_key) {
      line.overrides.emplace_back(name, *value);
    } else {
      line.options.emplace_back(std::string(known->name), value.value_or(""));
    }
  }
  if (!problems.empty()) {
    throw Error(Fault::kConfig, fmt::format("{}", fmt::join(problems, "\n")));
  }
  return line;
}

}  // namespace apo::cli
