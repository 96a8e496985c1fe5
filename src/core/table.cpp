#include "apo/core/table.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "fmt/format.h"

namespace apo {

std::int64_t Column::row_size() const {
  return std::accumulate(row_shape.begin(), row_shape.end(), std::int64_t{1},
                         [](std::int64_t a, std::int64_t b) { return a * b; });
}

std::int64_t Column::num_rows() const {
  const auto count =
      std::visit([](const auto& v) { return static_cast<std::int64_t>(v.size()); }, values);
  const std::int64_t per_row = row_size();
  return per_row == 0 ? 0 : count / per_row;
}

namespace {

template <class T>
Column& declare(std::deque<Column>& columns, std::string_view name, std::string_view units,
                std::string_view long_name, std::vector<std::int64_t> row_shape) {
  for (Column& column : columns) {
    if (column.name == name) {
      expects(
          std::holds_alternative<std::vector<T>>(column.values) && column.row_shape == row_shape,
          [&] { return fmt::format("column '{}' is declared twice with different types", name); });
      return column;
    }
  }
  columns.push_back({std::string(name), std::string(units), std::string(long_name),
                     std::move(row_shape), std::vector<T>{}});
  return columns.back();
}

Column& existing(Table& table, std::string_view name) {
  Column* column = table.find(name);
  expects(column != nullptr, [&] { return fmt::format("no column '{}' in this table", name); });
  return *column;
}

template <class T>
void push_value(Table& table, std::string_view name, T value) {
  Column& column = existing(table, name);
  auto* values = std::get_if<std::vector<T>>(&column.values);
  expects(values != nullptr && column.row_shape.empty(),
          [&] { return fmt::format("column '{}' does not take such a value", name); });
  values->push_back(std::move(value));
}

}  // namespace

Column& Table::real(std::string_view name, std::string_view units, std::string_view long_name,
                    std::vector<std::int64_t> row_shape) {
  return declare<double>(columns_, name, units, long_name, std::move(row_shape));
}

Column& Table::integer(std::string_view name, std::string_view units, std::string_view long_name,
                       std::vector<std::int64_t> row_shape) {
  return declare<std::int64_t>(columns_, name, units, long_name, std::move(row_shape));
}

Column& Table::text(std::string_view name, std::string_view long_name) {
  return declare<std::string>(columns_, name, "", long_name, {});
}

void Table::push(std::string_view name, double value) { push_value(*this, name, value); }
void Table::push(std::string_view name, std::int64_t value) { push_value(*this, name, value); }
void Table::push(std::string_view name, std::string value) {
  push_value(*this, name, std::move(value));
}

void Table::push(std::string_view name, std::span<const double> row) {
  Column& column = existing(*this, name);
  expects(static_cast<std::int64_t>(row.size()) == column.row_size(), [&] {
    return fmt::format("column '{}' takes {} numbers per row, got {}", name, column.row_size(),
                       row.size());
  });
  if (auto* reals = std::get_if<std::vector<double>>(&column.values)) {
    reals->insert(reals->end(), row.begin(), row.end());
    return;
  }
  auto* integers = std::get_if<std::vector<std::int64_t>>(&column.values);
  expects(integers != nullptr, [&] { return fmt::format("column '{}' holds text", name); });
  for (const double x : row) {
    integers->push_back(static_cast<std::int64_t>(x));
  }
}

const Column* Table::find(std::string_view name) const {
  const auto it = std::find_if(columns_.begin(), columns_.end(),
                               [&](const Column& column) { return column.name == name; });
  return it == columns_.end() ? nullptr : &*it;
}

Column* Table::find(std::string_view name) {
  return const_cast<Column*>(std::as_const(*this).find(name));
}

std::int64_t Table::num_rows() const { return columns_.empty() ? 0 : columns_[0].num_rows(); }

void Table::add(Column column) {
  expects(find(column.name) == nullptr, fmt::format("column '{}' exists already", column.name));
  columns_.push_back(std::move(column));
}

void Table::append(const Table& other) {
  if (columns_.empty()) {
    columns_ = other.columns_;
    return;
  }
  expects(columns_.size() == other.columns_.size(), "append: tables with different columns");
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& mine = columns_[i];
    const Column& theirs = other.columns_[i];
    expects(mine.name == theirs.name && mine.row_shape == theirs.row_shape &&
                mine.values.index() == theirs.values.index(),
            [&] { return fmt::format("append: column '{}' meets '{}'", mine.name, theirs.name); });
    std::visit(
        [&](auto& values) {
          const auto& more = std::get<std::decay_t<decltype(values)>>(theirs.values);
          values.insert(values.end(), more.begin(), more.end());
        },
        mine.values);
  }
}

void Table::check() const {
  for (const Column& column : columns_) {
    expects(column.num_rows() == num_rows(),
            fmt::format("column '{}' has {} rows, '{}' has {}", column.name, column.num_rows(),
                        columns_[0].name, num_rows()));
  }
}

namespace {

void put_number(std::string& out, std::uint64_t x) {
  const std::size_t at = out.size();
  out.resize(at + sizeof x);
  std::memcpy(out.data() + at, &x, sizeof x);
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size());
  out += text;
}

class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : bytes_(bytes) {}
  std::uint64_t number() {
    std::uint64_t x = 0;
    expects(position_ + sizeof x <= bytes_.size(), "unpack_table: truncated");
    std::memcpy(&x, bytes_.data() + position_, sizeof x);
    position_ += sizeof x;
    return x;
  }
  std::string text() {
    const std::uint64_t size = number();
    expects(size <= bytes_.size() - position_, "unpack_table: truncated");
    std::string result = bytes_.substr(position_, size);
    position_ += size;
    return result;
  }
  template <class T>
  std::vector<T> numbers() {
    const std::uint64_t size = number();
    expects(size <= (bytes_.size() - position_) / sizeof(T), "unpack_table: truncated");
    std::vector<T> result(size);
    if (size > 0) {
      std::memcpy(result.data(), bytes_.data() + position_, size * sizeof(T));
    }
    position_ += size * sizeof(T);
    return result;
  }

 private:
  const std::string& bytes_;
  std::size_t position_ = 0;
};

template <class T>
void put_numbers(std::string& out, const std::vector<T>& values) {
  put_number(out, values.size());
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

std::string pack(const Table& table) {
  std::string out;
  put_number(out, table.columns().size());
  for (const Column& column : table.columns()) {
    put_text(out, column.name);
    put_text(out, column.units);
    put_text(out, column.long_name);
    put_numbers(out, column.row_shape);
    put_number(out, column.values.index());
    if (const auto* reals = std::get_if<std::vector<double>>(&column.values)) {
      put_numbers(out, *reals);
    } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&column.values)) {
      put_numbers(out, *integers);
    } else {
      const auto& texts = std::get<std::vector<std::string>>(column.values);
      put_number(out, texts.size());
      for (const std::string& text : texts) {
        put_text(out, text);
      }
    }
  }
  return out;
}

Table unpack_table(const std::string& bytes) {
  Table table;
  Unpacker in(bytes);
  const std::uint64_t num_columns = in.number();
  for (std::uint64_t i = 0; i < num_columns; ++i) {
    Column column;
    column.name = in.text();
    column.units = in.text();
    column.long_name = in.text();
    column.row_shape = in.numbers<std::int64_t>();
    switch (in.number()) {
      case 0:
        column.values = in.numbers<double>();
        break;
      case 1:
        column.values = in.numbers<std::int64_t>();
        break;
      default: {
        std::vector<std::string> texts(in.number());
        for (std::string& text : texts) {
          text = in.text();
        }
        column.values = std::move(texts);
      }
    }
    table.add(std::move(column));
  }
  return table;
}

}  // namespace apo
