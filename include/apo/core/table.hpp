#pragma once

/// @file
/// Columns of measured values on their way to the run file: every column has one entry (or one
/// small array) per row, and its unit.

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apo/core/error.hpp"

namespace apo {

/// One column. `row_shape` is the shape of a single row's entry; empty for a scalar.
struct Column {
  std::string name;       ///< lower_snake_case, the data set's name
  std::string units;      ///< "nat", "s", "1" for dimensionless, "" for identities and text
  std::string long_name;  ///< one line for a reader
  std::vector<std::int64_t> row_shape;
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::string>> values;

  [[nodiscard]] std::int64_t row_size() const;  ///< product of row_shape
  [[nodiscard]] std::int64_t num_rows() const;
};

/// Columns of equal length. Declaring a column twice returns the first one.
class Table {
 public:
  /// @throws Error(kInternal) when the name exists with another type
  Column& real(std::string_view name, std::string_view units, std::string_view long_name,
               std::vector<std::int64_t> row_shape = {});
  Column& integer(std::string_view name, std::string_view units, std::string_view long_name,
                  std::vector<std::int64_t> row_shape = {});
  Column& text(std::string_view name, std::string_view long_name);

  /// Appends to an existing column.
  void push(std::string_view name, double value);
  void push(std::string_view name, std::int64_t value);
  void push(std::string_view name, std::string value);
  void push(std::string_view name, std::span<const double> row);

  [[nodiscard]] const Column* find(std::string_view name) const;
  [[nodiscard]] Column* find(std::string_view name);
  [[nodiscard]] const std::deque<Column>& columns() const { return columns_; }
  [[nodiscard]] std::int64_t num_rows() const;  ///< of the first column; 0 without columns
  void add(Column column);                      ///< takes a whole column as it is

  /// Appends the rows of a table with the same columns; an empty table takes its columns over.
  void append(const Table& other);

  /// @throws Error(kInternal) when columns differ in length; names them
  void check() const;

 private:
  std::deque<Column> columns_;  // references returned by real() etc. stay valid
};

/// Byte string of a whole table, to be sent between ranks of one job.
[[nodiscard]] std::string pack(const Table& table);
[[nodiscard]] Table unpack_table(const std::string& bytes);

}  // namespace apo
