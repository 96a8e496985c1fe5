#pragma once

/// @file
/// Options of the commands that take no configuration keys, by Boost.Program_options.

#include <string>

#include "commands.hpp"
#include <boost/program_options.hpp>

namespace apo::cli {

/// @param command     for messages, "tokenize"
/// @param positional  name under which arguments without an option are collected
/// @throws Error(kConfig)  what Boost.Program_options complains about
[[nodiscard]] boost::program_options::variables_map parse_options(
    const std::string& command, boost::program_options::options_description options,
    const std::string& positional, const Arguments& arguments);

}  // namespace apo::cli
