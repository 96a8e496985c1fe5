#include "program_options.hpp"

#include <vector>

#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::cli {

namespace po = boost::program_options;

po::variables_map parse_options(const std::string& command, po::options_description options,
                                const std::string& positional, const Arguments& arguments) {
  options.add_options()(positional.c_str(), po::value<std::vector<std::string>>());
  po::positional_options_description rest;
  rest.add(positional.c_str(), -1);
  po::variables_map values;
  try {
    namespace style = po::command_line_style;
    po::store(po::command_line_parser(arguments)
                  .options(options)
                  .positional(rest)
                  .style(style::unix_style & ~style::allow_guessing)
                  .run(),
              values);
  } catch (const po::error& error) {
    throw Error(Fault::kConfig,
                fmt::format("apo {}: {} (--help lists the options)", command, error.what()));
  }
  return values;
}

}  // namespace apo::cli
