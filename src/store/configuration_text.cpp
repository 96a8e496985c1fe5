#include "configuration_text.hpp"

#include <map>

#include <fmt/format.h>

#include "apo/core/sha256.hpp"

namespace apo::store {
namespace {

constexpr std::string_view kHashPrefix = "# sha256 ";

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// "section.key" -> value. Lines that are not of INI form are kept as keys of their own, so that
/// no difference is lost.
std::map<std::string, std::string> keys_of(std::string_view text) {
  std::map<std::string, std::string> keys;
  std::string section;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') {
      continue;
    }
    if (line.front() == '[' && line.back() == ']') {
      section = std::string(line.substr(1, line.size() - 2)) + ".";
      continue;
    }
    const std::size_t equals = line.find('=');
    const std::string key = section + std::string(trimmed(line.substr(0, equals)));
    keys[key] = equals == std::string_view::npos ? "" : trimmed(line.substr(equals + 1));
  }
  return keys;
}

bool no_result_depends_on(std::string_view key) {
  return key.starts_with("checkpoint.") || key == "runtime.timeout";
}

}  // namespace

std::string with_hash_line(const std::string& configuration) {
  return fmt::format("{}{}\n{}", kHashPrefix, sha256_hex(configuration), configuration);
}

StoredConfiguration parse_stored(std::string_view file) {
  StoredConfiguration stored;
  const std::size_t end = file.find('\n');
  if (!file.starts_with(kHashPrefix) || end == std::string_view::npos) {
    stored.text = file;
    return stored;
  }
  const std::string_view hash = file.substr(kHashPrefix.size(), end - kHashPrefix.size());
  stored.text = file.substr(end + 1);
  stored.is_intact = hash == sha256_hex(stored.text);
  return stored;
}

ConfigurationDifference configuration_difference(std::string_view stored, std::string_view now) {
  const auto before = keys_of(stored);
  const auto after = keys_of(now);
  ConfigurationDifference difference;
  difference.is_harmless = true;
  const auto add = [&](const std::string& key, const std::string& old_and_new) {
    difference.text += fmt::format("\n  {}: {}", key, old_and_new);
    difference.is_harmless = difference.is_harmless && no_result_depends_on(key);
  };
  for (const auto& [key, value] : before) {
    const auto other = after.find(key);
    if (other == after.end()) {
      add(key, fmt::format("'{}' in the folder, absent now", value));
    } else if (other->second != value) {
      add(key, fmt::format("'{}' in the folder, '{}' now", value, other->second));
    }
  }
  for (const auto& [key, value] : after) {
    if (before.count(key) == 0) {
      add(key, fmt::format("absent in the folder, '{}' now", value));
    }
  }
  if (difference.text.empty()) {
    difference = {"\n  only comments, order or spaces differ", false};
  }
  return difference;
}

}  // namespace apo::store
