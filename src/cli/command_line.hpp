#pragma once

/// @file
/// The arguments after a subcommand's name, sorted: own options, configuration keys, the rest.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"

namespace apo::cli {

/// An option that a subcommand understands.
struct Accepted {
  std::string_view name;  ///< without dashes: "out"
  bool takes_value = true;
  char letter = '\0';  ///< 'c' for -c
};

struct CommandLine {
  std::vector<std::pair<std::string, std::string>> options;    ///< own, in order; flags hold ""
  std::vector<std::pair<std::string, std::string>> overrides;  ///< --section.key VALUE, in order
  std::vector<std::string> positionals;

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;  ///< the last one
};

/// Understands "--name VALUE", "--name=VALUE", "-c VALUE" and "--" (positionals follow). A name
/// with a dot is a configuration key, if the subcommand takes such.
///
/// @throws Error(kConfig)  all unknown options, with the nearest known ones, and options without
///         their value; one per line
[[nodiscard]] CommandLine parse_command_line(const Arguments& arguments,
                                             std::initializer_list<Accepted> accepted,
                                             bool takes_configuration_keys);

}  // namespace apo::cli
