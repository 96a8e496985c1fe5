#include "apo/config/reference.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "apo/config/run_config.hpp"

namespace apo::config {
namespace {

std::string_view section_of(std::string_view key) { return key.substr(0, key.find('.')); }
std::string_view name_of(std::string_view key) { return key.substr(key.find('.') + 1); }

std::string value_text(const Field& field) {
  std::string text = field.type;
  if (!field.range.empty()) {
    text += " in " + field.range;
  }
  if (!field.unit.empty()) {
    text += ", " + field.unit;
  }
  return text;
}

std::string default_text(const Field& field) {
  if (field.required) {
    return "required";
  }
  return field.default_text.empty() ? "empty" : field.default_text;
}

/// Text for a Markdown table cell: a bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

/// Breaks at blanks so that no line is longer than 96 characters; each line is indented by six.
std::string wrapped(std::string_view text) {
  constexpr std::size_t kWidth = 90;
  std::string lines;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > kWidth) {
      const auto blank = text.rfind(' ', kWidth);
      end = blank == std::string_view::npos ? kWidth : blank;
    }
    lines += fmt::format("      {}\n", text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return lines;
}

}  // namespace

std::string options_text() {
  RunConfig config;
  const FieldTable table = make_field_table(config);
  std::string text;
  std::string_view section;
  for (const Field& field : table.fields()) {
    if (section_of(field.key) != section) {
      section = section_of(field.key);
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("  --{}  {} ({})\n", field.key, value_text(field),
                        field.required ? "required" : "default: " + default_text(field));
    text += wrapped(field.help);
  }
  return text;
}

std::string options_markdown() {
  RunConfig config;
  const FieldTable table = make_field_table(config);
  std::string text;
  std::string_view section;
  for (const Field& field : table.fields()) {
    if (section_of(field.key) != section) {
      text += fmt::format("{}**[{}]**\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                          section.empty() ? "" : "\n", section_of(field.key));
      section = section_of(field.key);
    }
    text += fmt::format("| `{}` | {} | {} | {} |\n", name_of(field.key), cell(value_text(field)),
                        cell(default_text(field)), cell(field.help));
  }
  return text;
}

}  // namespace apo::config
