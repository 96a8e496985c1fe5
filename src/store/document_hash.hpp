#pragma once

/// @file
/// What the hashes inside a file are computed of, and the seal at its end. Private to store.
///
/// Three layers: `sha256` on each data set is that of its raw bytes (what h5py's tobytes() gives);
/// `content_sha256` on the root covers names, types, shapes, units and every attribute, and so a
/// data set that has gone; the seal, a line of text behind the last byte of HDF5, covers the whole
/// file, so that damaged metadata never reaches the HDF5 library.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "apo/store/document.hpp"

namespace apo::store {

inline constexpr const char* kDocumentVersionName = "document_version";
inline constexpr std::int64_t kDocumentVersion = 1;
inline constexpr const char* kContentHashName = "content_sha256";
inline constexpr const char* kDataHashName = "sha256";
inline constexpr const char* kGeneratedName = "generated";

/// One array as bytes, as they lie in the file.
struct RawArray {
  std::string type;                  ///< "float64", "float32", "int64", "string[12]"
  std::size_t element_bytes = 0;     ///< of one element
  std::span<const std::byte> bytes;  ///< into the array, or into `padded`
  std::vector<char> padded;          ///< fixed-length strings
};
/// @throws Error(kInternal)  shape and number of values differ, or a text holds a zero byte
[[nodiscard]] RawArray raw_array(const std::string& path, const Array& array);
[[nodiscard]] std::int64_t num_elements(const Array& array);

/// @param data_hashes  by path, of every array
[[nodiscard]] std::string content_hash(const Document& document,
                                       const std::map<std::string, std::string>& data_hashes);

/// The same of a document that is not in a file yet.
[[nodiscard]] std::string content_hash(const Document& document);

/// Reads a file that was just written as a new process would: not from the page cache, where the
/// file system can drop it, and with every hash checked.
/// @throws BackendError  it is damaged, or holds something else than `expected`
void verify_written(const std::filesystem::path& path, const std::string& expected_content_hash);

/// SHA-256 of the first `num_bytes` of a file.
[[nodiscard]] std::string hash_of_file(const std::filesystem::path& path, std::uint64_t num_bytes);
[[nodiscard]] std::string seal_text(const std::string& sha256, std::uint64_t num_bytes);
[[nodiscard]] std::size_t seal_size();

}  // namespace apo::store
