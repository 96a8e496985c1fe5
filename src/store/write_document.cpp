#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "document_hash.hpp"
#include "free_space.hpp"
#include "hdf5_handle.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5_hl.h>
#include <sys/stat.h>

#include "apo/core/durable_file.hpp"
#include "apo/core/sha256.hpp"
#include "apo/store/document.hpp"

namespace apo::store {
namespace {

/// Bytes of one chunk: some thousand rows of a scalar series, and large arrays do not fall into
/// very many pieces.
constexpr std::int64_t kChunkBytes = 256 * 1024;

/// Longer axes get a name without coordinates: numbers 0, 1, 2, ... would outweigh the data.
constexpr std::int64_t kLongestIndex = 4096;

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}
std::string name_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

void check_path(const std::string& path) {
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    expects(!part.empty() && part != "." && part != ".." && part.find('\0') == std::string::npos,
            fmt::format("'{}' is not a path inside a file", path));
    begin = end + 1;
  }
}

class Writer {
 public:
  Writer(const std::filesystem::path& path, const Document& document) : document_(document) {
    Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate");
    h5_check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V110),
             "H5Pset_libver_bounds");
    h5_check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree");
    Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "H5Pcreate");
    h5_check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
    file_ = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose,
                   "H5Fcreate");
  }

  void write() {
    for (const auto& [path, array] : document_.arrays) {
      check_path(path);
      make_groups(parent_of(path));
    }
    std::map<std::string, std::string> hashes;
    for (const auto& [path, array] : document_.arrays) {
      hashes[path] = write_array(path, array);
    }
    attach_dimensions();
    for (const auto& [group, attributes] : document_.attributes) {
      if (!group.empty()) {
        check_path(group);
      }
      make_groups(group);
      Handle owner = open_group(group);
      for (const auto& [name, value] : attributes) {
        expects(!(group.empty() && (name == kContentHashName || name == kDocumentVersionName)),
                fmt::format("attribute '{}' of the root is written by the store", name));
        write_attribute(owner, name, value);
      }
      owner.close("H5Gclose");
    }
    Handle root = open_group("");
    write_attribute(root, kDocumentVersionName, kDocumentVersion);
    write_attribute(root, kContentHashName, content_hash(document_, hashes));
    root.close("H5Gclose");
    h5_check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "H5Fflush");
    file_.close("H5Fclose");
  }

 private:
  Handle open_group(const std::string& group) {
    return Handle(H5Gopen2(file_.get(), ("/" + group).c_str(), H5P_DEFAULT), H5Gclose, "H5Gopen2");
  }

  void make_groups(const std::string& group) {
    if (group.empty() || !groups_.insert(group).second) {
      return;
    }
    make_groups(parent_of(group));
    expects(document_.arrays.count(group) == 0,
            fmt::format("'{}' is a data set and a group", group));
    Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "H5Pcreate");
    h5_check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
    Handle made(H5Gcreate2(file_.get(), group.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                H5Gclose, "H5Gcreate2");
    made.close("H5Gclose");
  }

  /// Strings in attributes have variable length: h5py gives `str` for them.
  static void write_attribute(const Handle& owner, const std::string& name,
                              const Attribute& attribute) {
    const auto write = [&](hid_t file_type, hid_t memory_type, const void* data,
                           std::optional<std::size_t> length) {
      const hsize_t extent = length.value_or(0);
      Handle space(length ? H5Screate_simple(1, &extent, nullptr) : H5Screate(H5S_SCALAR), H5Sclose,
                   "H5Screate");
      Handle made(
          H5Acreate2(owner.get(), name.c_str(), file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
          H5Aclose, "H5Acreate2");
      if (!length || extent > 0) {
        h5_check(H5Awrite(made.get(), memory_type, data), "H5Awrite");
      }
      made.close("H5Aclose");
    };
    const auto write_texts = [&](const std::vector<std::string>& texts, bool is_list) {
      std::vector<const char*> pointers;
      for (const std::string& text : texts) {
        expects(text.find('\0') == std::string::npos,
                fmt::format("attribute '{}' holds a zero byte", name));
        pointers.push_back(text.c_str());
      }
      Handle type = utf8_type(H5T_VARIABLE);
      write(type.get(), type.get(), pointers.data(),
            is_list ? std::optional<std::size_t>(texts.size()) : std::nullopt);
    };
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::string>) {
            write_texts({value}, false);
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            write_texts(value, true);
          } else if constexpr (std::is_same_v<T, std::int64_t>) {
            write(H5T_STD_I64LE, H5T_NATIVE_INT64, &value, std::nullopt);
          } else if constexpr (std::is_same_v<T, double>) {
            write(H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, std::nullopt);
          } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            write(H5T_STD_I64LE, H5T_NATIVE_INT64, value.data(), value.size());
          } else {
            write(H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, value.data(), value.size());
          }
        },
        attribute);
  }

  static Handle file_type(const Array& array, const RawArray& raw) {
    if (std::holds_alternative<std::vector<std::string>>(array.values)) {
      return utf8_type(raw.element_bytes);
    }
    const hid_t type = std::holds_alternative<std::vector<double>>(array.values)  ? H5T_IEEE_F64LE
                       : std::holds_alternative<std::vector<float>>(array.values) ? H5T_IEEE_F32LE
                                                                                  : H5T_STD_I64LE;
    return Handle(H5Tcopy(type), H5Tclose, "H5Tcopy");
  }

  /// Whole trailing axes first, then as much of the next one as fits.
  static std::vector<hsize_t> chunk_shape(const Array& array, std::size_t element_bytes) {
    std::vector<hsize_t> chunk(array.shape.size(), 1);
    auto room = std::max<std::int64_t>(1, kChunkBytes / static_cast<std::int64_t>(element_bytes));
    for (std::size_t axis = chunk.size(); axis-- > 0;) {
      chunk[axis] = static_cast<hsize_t>(std::min(array.shape[axis], room));
      room = std::max<std::int64_t>(1, room / array.shape[axis]);
    }
    return chunk;
  }

  /// @returns SHA-256 of the raw bytes
  std::string write_array(const std::string& path, const Array& array) {
    for (const std::int64_t extent : array.shape) {
      expects(extent >= 0, path + ": negative extent");
    }
    expects(
        array.dimensions.empty() || array.dimensions.size() == array.shape.size(),
        fmt::format("{}: {} names for {} axes", path, array.dimensions.size(), array.shape.size()));
    const RawArray raw = raw_array(path, array);
    const std::vector<hsize_t> extents(array.shape.begin(), array.shape.end());
    Handle space(extents.empty()
                     ? H5Screate(H5S_SCALAR)
                     : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                 H5Sclose, "H5Screate");
    Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate");
    h5_check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
    if (!extents.empty() && !raw.bytes.empty()) {  // only chunked data can carry a checksum
      const auto chunk = chunk_shape(array, raw.element_bytes);
      h5_check(H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()),
               "H5Pset_chunk");
      h5_check(H5Pset_fletcher32(creation.get()), "H5Pset_fletcher32");
    }
    Handle type = file_type(array, raw);
    Handle made(H5Dcreate2(file_.get(), path.c_str(), type.get(), space.get(), H5P_DEFAULT,
                           creation.get(), H5P_DEFAULT),
                H5Dclose, "H5Dcreate2");
    if (!raw.bytes.empty()) {
      h5_check(H5Dwrite(made.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, raw.bytes.data()),
               "H5Dwrite");
    }
    Sha256 hash;
    hash.update(raw.bytes);
    std::string digest = hash.hex();
    write_attribute(made, kDataHashName, digest);
    if (!array.units.empty()) {
      write_attribute(made, "units", array.units);
    }
    if (!array.long_name.empty()) {
      write_attribute(made, "long_name", array.long_name);
    }
    made.close("H5Dclose");
    return digest;
  }

  /// Names axes and gives each name a dimension scale: the data set of that name where there is
  /// one, else 0, 1, 2, ... (or nothing, for a long axis).
  void attach_dimensions() {
    std::map<std::string, std::pair<std::int64_t, std::string>> extents;  // group/name
    for (const auto& [path, array] : document_.arrays) {
      for (std::size_t axis = 0; axis < array.dimensions.size(); ++axis) {
        const std::string key = parent_of(path) + "/" + array.dimensions[axis];
        const auto [entry, is_new] = extents.try_emplace(key, array.shape[axis], path);
        expects(
            entry->second.first == array.shape[axis],
            fmt::format("dimension '{}' has length {} in {} and {} in {}", array.dimensions[axis],
                        entry->second.first, entry->second.second, array.shape[axis], path));
      }
    }
    std::map<std::string, std::string> scales;  // group/name -> path of the scale
    for (const auto& [key, extent] : extents) {
      scales[key] = scale_for(parent_of(key), name_of(key), extent.first);
    }
    for (const auto& [path, array] : document_.arrays) {
      if (array.dimensions.empty()) {
        continue;
      }
      Handle data(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2");
      for (std::size_t axis = 0; axis < array.dimensions.size(); ++axis) {
        const std::string& name = array.dimensions[axis];
        const auto position = static_cast<unsigned>(axis);
        h5_check(H5DSset_label(data.get(), position, name.c_str()), "H5DSset_label");
        const std::string& scale_path = scales.at(parent_of(path) + "/" + name);
        if (scale_path != path) {  // a scale has no scale
          Handle scale(H5Dopen2(file_.get(), scale_path.c_str(), H5P_DEFAULT), H5Dclose,
                       "H5Dopen2");
          h5_check(H5DSattach_scale(data.get(), scale.get(), position), "H5DSattach_scale");
          scale.close("H5Dclose");
        }
      }
      data.close("H5Dclose");
    }
  }

  std::string scale_for(const std::string& group, const std::string& name, std::int64_t extent) {
    const auto in_group = [&](const std::string& base) {
      return group.empty() ? base : group + "/" + base;
    };
    const auto own = document_.arrays.find(in_group(name));
    if (own != document_.arrays.end() && own->second.dimensions == std::vector<std::string>{name}) {
      mark_as_scale(own->first, name);
      return own->first;
    }
    std::string base = name;
    while (document_.arrays.count(in_group(base)) != 0 || groups_.count(in_group(base)) != 0) {
      base += "_index";  // e.g. a column `client` beside an axis `client` of another meaning
    }
    const std::string path = in_group(base);
    check_path(path);
    if (extent > kLongestIndex) {
      write_name_only_scale(path, extent);
    } else {
      Array index;
      index.shape = {extent};
      index.long_name = "position along " + name;
      std::vector<std::int64_t> positions(static_cast<std::size_t>(extent));
      std::iota(positions.begin(), positions.end(), std::int64_t{0});
      index.values = std::move(positions);
      write_array(path, index);
      mark_as_scale(path, base);
    }
    Handle made(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2");
    write_attribute(made, kGeneratedName, std::int64_t{1});
    made.close("H5Dclose");
    return path;
  }

  /// A dimension without coordinates, as netCDF-4 writes it: the data set is never allocated, and
  /// the text of its name is what its readers look for.
  void write_name_only_scale(const std::string& path, std::int64_t extent) {
    const auto length = static_cast<hsize_t>(extent);
    Handle space(H5Screate_simple(1, &length, nullptr), H5Sclose, "H5Screate_simple");
    Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate");
    h5_check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
    Handle made(H5Dcreate2(file_.get(), path.c_str(), H5T_IEEE_F32BE, space.get(), H5P_DEFAULT,
                           creation.get(), H5P_DEFAULT),
                H5Dclose, "H5Dcreate2");
    made.close("H5Dclose");
    mark_as_scale(
        path, fmt::format("This is a netCDF dimension but not a netCDF variable.{:10d}", extent));
  }

  void mark_as_scale(const std::string& path, const std::string& name) {
    Handle data(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2");
    h5_check(H5DSset_scale(data.get(), name.c_str()), "H5DSset_scale");
    data.close("H5Dclose");
  }

  const Document& document_;
  Handle file_;
  std::set<std::string> groups_;
};

}  // namespace

void write_document(const std::filesystem::path& path, const Document& document,
                    const WriteOptions& options) {
  prepare_hdf5();
  check_room(path, least_bytes(document));
  PendingFile pending(path);
  try {
    Writer writer(pending.path(), document);
    writer.write();
  } catch (const BackendError& error) {
    throw BackendError("writing " + path.string(), error.code(), error.what());
  }
  struct stat status {};
  if (::stat(pending.path().c_str(), &status) != 0) {
    throw_errno("stat", pending.path());
  }
  const auto num_bytes = static_cast<std::uint64_t>(status.st_size);
  const std::string seal = seal_text(hash_of_file(pending.path(), num_bytes), num_bytes);
  UniqueFd end = open_file(pending.path(), O_WRONLY | O_APPEND);
  write_all(end, seal, pending.path());
  end.close(pending.path());
  if (options.verify) {
    verify_written(pending.path(), content_hash(document));
  }
  pending.publish();
}

}  // namespace apo::store
