#include "apo/store/document.hpp"

#include "document_hash.hpp"
#include <fmt/format.h>

#include "apo/core/error.hpp"

namespace apo::store {
namespace {

constexpr const char* kColumnsName = "columns";

std::string join_path(const std::string& group, const std::string& name) {
  return group.empty() ? name : group + "/" + name;
}

}  // namespace

void Document::put_table(const std::string& group, const Table& table,
                         const std::string& row_dimension) {
  table.check();
  std::vector<std::string> names;
  for (const Column& column : table.columns()) {
    Array array;
    array.units = column.units;
    array.long_name = column.long_name;
    array.shape.push_back(table.num_rows());
    array.dimensions.push_back(row_dimension);
    for (std::size_t axis = 0; axis < column.row_shape.size(); ++axis) {
      array.shape.push_back(column.row_shape[axis]);
      // A Gram matrix is [m, m]: readers such as xarray want a name per axis, not per extent.
      array.dimensions.push_back(fmt::format("axis{}_{}", axis + 1, column.row_shape[axis]));
    }
    std::visit([&](const auto& values) { array.values = values; }, column.values);
    names.push_back(column.name);
    arrays[join_path(group, column.name)] = std::move(array);
  }
  attributes[group][kColumnsName] = names;
}

Table Document::get_table(const std::string& group) const {
  const auto* names = std::get_if<std::vector<std::string>>(&attribute(group, kColumnsName));
  if (names == nullptr) {
    throw Error(Fault::kData, fmt::format("group '{}' holds no table: its attribute 'columns' is "
                                          "not a list of names",
                                          group));
  }
  Table table;
  for (const std::string& name : *names) {
    const std::string path = join_path(group, name);
    const Array& source = array(path);
    if (source.shape.empty()) {
      throw Error(Fault::kData, path + ": a column of a table cannot be a scalar");
    }
    Column column;
    column.name = name;
    column.units = source.units;
    column.long_name = source.long_name;
    column.row_shape.assign(source.shape.begin() + 1, source.shape.end());
    std::visit(
        [&](const auto& values) {
          if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::vector<float>>) {
            throw Error(Fault::kData, path + ": a column of a table cannot be float32");
          } else {
            column.values = values;
          }
        },
        source.values);
    table.add(std::move(column));
  }
  table.check();
  return table;
}

const Array& Document::array(const std::string& path) const {
  const auto entry = arrays.find(path);
  if (entry == arrays.end()) {
    throw Error(Fault::kData, fmt::format("no data set '{}' in the file", path));
  }
  return entry->second;
}

const Attribute& Document::attribute(const std::string& group, const std::string& name) const {
  const auto owner = attributes.find(group);
  if (owner != attributes.end()) {
    const auto entry = owner->second.find(name);
    if (entry != owner->second.end()) {
      return entry->second;
    }
  }
  throw Error(Fault::kData,
              fmt::format("no attribute '{}' on group '/{}' in the file", name, group));
}

}  // namespace apo::store
