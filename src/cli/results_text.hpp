#pragma once

/// @file
/// Tables of text cells, and the formats in which apo report prints them.

#include <string>
#include <vector>

#include "results_table.hpp"

#include "apo/metrics/scores.hpp"

namespace apo::cli {

struct TextTable {
  std::string title;
  std::vector<std::string> head;  ///< distinct names: they are the keys of the JSON rows
  std::vector<std::vector<std::string>> rows;
};

/// The tables that have rows, one below the other; JSON: one list of {title, rows}.
[[nodiscard]] std::string render(const std::vector<TextTable>& tables, TableFormat format);

/// Three decimals; "-" for NaN, "inf" for infinity.
[[nodiscard]] std::string cell(double x);
/// Four significant digits, for numbers of any size; else as cell().
[[nodiscard]] std::string small_cell(double x);
/// "[+0.054, +0.136]" with a number's format such as "{:+.3f}"; "-" when it is not finite.
[[nodiscard]] std::string interval_cell(double low, double high, const std::string& number);

}  // namespace apo::cli
