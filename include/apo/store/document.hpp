#pragma once

/// @file
/// What an HDF5 file of ours holds, in memory; written whole and published atomically
/// (spec operations.md, sections 1.4, 1.7 to 1.10). No hdf5.h here.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apo/core/table.hpp"

namespace apo::store {

using Attribute = std::variant<std::string, std::int64_t, double, std::vector<std::string>,
                               std::vector<std::int64_t>, std::vector<double>>;

/// One data set. Strings are stored with fixed length; scalars have an empty shape.
struct Array {
  std::variant<std::vector<double>, std::vector<float>, std::vector<std::int64_t>,
               std::vector<std::string>>
      values;
  std::vector<std::int64_t> shape;
  std::string units;
  std::string long_name;
  std::vector<std::string> dimensions;  ///< names of the axes; one per axis, or empty
};

/// Groups are implied by paths such as "phase1/steps/loss".
struct Document {
  std::map<std::string, std::map<std::string, Attribute>> attributes;  ///< group path ("" = root)
  std::map<std::string, Array> arrays;                                 ///< by path

  /// Every column of the table as group/name, first axis called `row_dimension`.
  void put_table(const std::string& group, const Table& table, const std::string& row_dimension);
  [[nodiscard]] Table get_table(const std::string& group) const;
  /// @throws Error(kData)  absent, or of another type
  [[nodiscard]] const Array& array(const std::string& path) const;
  [[nodiscard]] const Attribute& attribute(const std::string& group, const std::string& name) const;
};

struct WriteOptions {
  /// Before it gets its name, the file is dropped from the page cache, read back and compared.
  bool verify = false;
};

/// Temporary name in the same folder, H5Fflush, H5Fclose, fsync, rename, folder fsync; chunked with
/// fletcher32, libver earliest..v110, a SHA-256 of every data set and attribute inside; dimension
/// scales attached.
/// @throws BackendError  any step failed (disk full, read-only, read back wrong, ...); the old file
///         is untouched. Room is looked at first, so that a full disk costs no time.
void write_document(const std::filesystem::path& path, const Document& document,
                    const WriteOptions& options = {});

/// Reads a whole file and verifies its hashes.
/// @throws Error(kData)  damaged, not ours, or too large; says what
[[nodiscard]] Document read_document(const std::filesystem::path& path);

/// "HDF5 1.10.8", of the library that runs; "(headers 1.10.7)" behind it where they differ.
[[nodiscard]] std::string library_version();

}  // namespace apo::store
