#include "ini_file.hpp"

#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::config {
namespace {

/// A line as the parser sees it: without comment and outer blanks.
std::string_view content(std::string_view line) {
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kBlanks = " \t\r";
  const auto first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    return {};
  }
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

IniFile read_ini(const std::filesystem::path& file) {
  std::error_code status;
  if (!std::filesystem::is_regular_file(file, status)) {
    throw Error(Fault::kConfig, fmt::format("{}: no such configuration file", file.string()));
  }
  std::ifstream in(file);
  if (!in) {
    throw Error(Fault::kConfig, fmt::format("{}: cannot be read", file.string()));
  }

  IniFile ini;
  std::string accepted;
  std::vector<int> lines;  // of the entries, in order
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    const std::string_view line = content(text);
    const bool section = line.size() > 2 && line.front() == '[' && line.back() == ']';
    const auto equals = line.find('=');
    if (line.empty()) {
      continue;
    }
    if (!section && (equals == std::string_view::npos || content(line.substr(0, equals)).empty())) {
      ini.problems.push_back(fmt::format("{}:{}: expected [section] or key = value, found '{}'",
                                         file.string(), number, line));
      continue;
    }
    if (!section) {
      lines.push_back(number);
    }
    accepted.append(line).push_back('\n');
  }

  namespace po = boost::program_options;
  std::istringstream stream(accepted);
  const po::options_description no_options;  // all come back as unregistered, in file order
  const auto parsed = po::parse_config_file(stream, no_options, true);
  expects(parsed.options.size() == lines.size(), "INI lines and entries differ in number");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& option = parsed.options[i];
    ini.entries.push_back(
        {option.string_key, option.value.empty() ? "" : option.value.front(), lines[i]});
  }
  return ini;
}

}  // namespace apo::config
