#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "document_hash.hpp"
#include "hdf5_handle.hpp"
#include <fmt/format.h>
#include <hdf5_hl.h>

#include "apo/core/sha256.hpp"
#include "apo/store/document.hpp"

namespace apo::store {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 16;
constexpr hssize_t kMaxAttributeElements = 1'000'000;

/// The seal first: bytes that are not ours never reach the HDF5 library, which "is not designed to
/// handle maliciously crafted files safely" and may crash on a flipped bit.
std::uint64_t check_seal(const fs::path& path) {
  std::error_code code;
  const std::uint64_t total = fs::file_size(path, code);
  if (code) {
    throw Error(Fault::kData, fmt::format("{}: {}", path.string(), code.message()));
  }
  const std::size_t length = seal_size();
  std::string found(length, '\0');
  if (total > length) {
    std::ifstream in(path, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(total - length));
    in.read(found.data(), static_cast<std::streamsize>(length));
    if (!in) {
      throw Error(Fault::kData, path.string() + ": cannot be read");
    }
  }
  if (!found.starts_with("\napo-seal ")) {
    throw Error(Fault::kData,
                fmt::format("{}: not a file of apo, changed since it was published, or cut short: "
                            "the last {} of its {} bytes are not the seal",
                            path.string(), length, total));
  }
  const std::uint64_t num_bytes = total - length;
  const std::string expected = seal_text(hash_of_file(path, num_bytes), num_bytes);
  if (found != expected) {
    throw Error(Fault::kData,
                fmt::format("{}: damaged: its bytes give '{}', its seal says '{}'", path.string(),
                            expected.substr(1, length - 2), found.substr(1, length - 2)));
  }
  return num_bytes;
}

class Reader {
 public:
  Reader(const fs::path& path, std::uint64_t num_bytes) : path_(path), num_bytes_(num_bytes) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) {
      throw Error(Fault::kData,
                  fmt::format("{}: HDF5 cannot open it: {}. On a file system without locks, set "
                              "HDF5_USE_FILE_LOCKING=FALSE if no job is writing this file",
                              path.string(), hdf5_error_text()));
    }
    file_ = Handle(file, H5Fclose, "H5Fopen");
  }

  Document read() {
    read_group("", 0);
    auto& root = document_.attributes[""];
    const Attribute version = take(root, kDocumentVersionName);
    if (version != Attribute(kDocumentVersion)) {
      fail(fmt::format("'{}' is not {}: written by another version", kDocumentVersionName,
                       kDocumentVersion));
    }
    const Attribute stored = take(root, kContentHashName);
    if (root.empty()) {
      document_.attributes.erase("");
    }
    if (stored != Attribute(content_hash(document_, hashes_))) {
      fail(fmt::format("'{}' does not match the attributes and data sets", kContentHashName));
    }
    return std::move(document_);
  }

 private:
  using Attributes = std::map<std::string, Attribute>;

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(Fault::kData, fmt::format("{}: damaged: {}", path_.string(), what));
  }

  Attribute take(Attributes& attributes, const std::string& name) const {
    const auto entry = attributes.find(name);
    if (entry == attributes.end()) {
      fail(fmt::format("attribute '{}' is missing", name));
    }
    Attribute value = std::move(entry->second);
    attributes.erase(entry);
    return value;
  }

  std::string take_text(Attributes& attributes, const std::string& name) const {
    const auto entry = attributes.find(name);
    if (entry == attributes.end()) {
      return "";
    }
    Attribute value = take(attributes, name);
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) {
      fail(fmt::format("attribute '{}' is not a text", name));
    }
    return *text;
  }

  void read_group(const std::string& group, int depth) {
    if (depth > kMaxDepth) {
      fail(fmt::format("groups are nested deeper than {}", kMaxDepth));
    }
    Handle owner(H5Gopen2(file_.get(), ("/" + group).c_str(), H5P_DEFAULT), H5Gclose, "H5Gopen2");
    Attributes attributes = read_attributes(owner, group);
    if (!attributes.empty()) {
      document_.attributes[group] = std::move(attributes);
    }
    std::vector<std::pair<std::string, H5L_type_t>> links;
    h5_check(H5Literate(
                 owner.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
                 [](hid_t, const char* name, const H5L_info_t* info, void* target) -> herr_t {
                   static_cast<decltype(links)*>(target)->emplace_back(name, info->type);
                   return 0;
                 },
                 &links),
             "H5Literate");
    for (const auto& [name, type] : links) {
      const std::string path = group.empty() ? name : group + "/" + name;
      if (type != H5L_TYPE_HARD) {
        fail(fmt::format("'{}' is a soft or external link, which may lead to other files", path));
      }
      Handle object(H5Oopen(file_.get(), path.c_str(), H5P_DEFAULT), H5Oclose, "H5Oopen");
      const H5I_type_t kind = H5Iget_type(object.get());
      if (kind == H5I_GROUP) {
        object.close("H5Oclose");
        read_group(path, depth + 1);
      } else if (kind == H5I_DATASET) {
        read_array(object, path);
      } else {
        fail(fmt::format("'{}' is neither a group nor a data set", path));
      }
    }
  }

  Attributes read_attributes(const Handle& owner, const std::string& where) const {
    std::vector<std::string> names;
    hsize_t position = 0;
    h5_check(H5Aiterate2(
                 owner.get(), H5_INDEX_NAME, H5_ITER_INC, &position,
                 [](hid_t, const char* name, const H5A_info_t*, void* target) -> herr_t {
                   static_cast<std::vector<std::string>*>(target)->emplace_back(name);
                   return 0;
                 },
                 &names),
             "H5Aiterate2");
    static const std::set<std::string> kOfDimensionScales{"CLASS", "NAME", "REFERENCE_LIST",
                                                          "DIMENSION_LIST", "DIMENSION_LABELS"};
    Attributes attributes;
    for (const std::string& name : names) {
      if (kOfDimensionScales.count(name) == 0) {
        attributes[name] = read_attribute(owner, where, name);
      }
    }
    return attributes;
  }

  Attribute read_attribute(const Handle& owner, const std::string& where,
                           const std::string& name) const {
    Handle attribute(H5Aopen(owner.get(), name.c_str(), H5P_DEFAULT), H5Aclose, "H5Aopen");
    Handle space(H5Aget_space(attribute.get()), H5Sclose, "H5Aget_space");
    Handle type(H5Aget_type(attribute.get()), H5Tclose, "H5Aget_type");
    const bool is_scalar = H5Sget_simple_extent_type(space.get()) == H5S_SCALAR;
    const hssize_t n = h5_check(H5Sget_simple_extent_npoints(space.get()), "H5Sget_npoints");
    if (n > kMaxAttributeElements || (!is_scalar && H5Sget_simple_extent_ndims(space.get()) != 1)) {
      fail(fmt::format("attribute '{}' of '/{}' has a shape we do not write", name, where));
    }
    const auto count = static_cast<std::size_t>(n);
    const auto read_numbers = [&](auto zero, hid_t memory_type) -> Attribute {
      std::vector<decltype(zero)> values(count, zero);
      if (n > 0) {
        h5_check(H5Aread(attribute.get(), memory_type, values.data()), "H5Aread");
      }
      return is_scalar ? Attribute(values[0]) : Attribute(std::move(values));
    };
    switch (H5Tget_class(type.get())) {
      case H5T_INTEGER:
        return read_numbers(std::int64_t{0}, H5T_NATIVE_INT64);
      case H5T_FLOAT:
        return read_numbers(0.0, H5T_NATIVE_DOUBLE);
      case H5T_STRING:
        break;
      default:
        fail(fmt::format("attribute '{}' of '/{}' has a type we do not write", name, where));
    }
    if (h5_check(H5Tis_variable_str(type.get()), "H5Tis_variable_str") == 0) {
      fail(fmt::format("attribute '{}' of '/{}' is a text of fixed length", name, where));
    }
    Handle memory_type = utf8_type(H5T_VARIABLE);
    std::vector<char*> pointers(count, nullptr);
    std::vector<std::string> texts;
    if (n > 0) {
      h5_check(H5Aread(attribute.get(), memory_type.get(), static_cast<void*>(pointers.data())),
               "H5Aread");
    }
    for (const char* text : pointers) {
      texts.emplace_back(text != nullptr ? text : "");
    }
    if (n > 0) {
      h5_check(H5Dvlen_reclaim(memory_type.get(), space.get(), H5P_DEFAULT,
                               static_cast<void*>(pointers.data())),
               "H5Dvlen_reclaim");
    }
    return is_scalar ? Attribute(texts[0]) : Attribute(std::move(texts));
  }

  void read_array(const Handle& data, const std::string& path) {
    Handle creation(H5Dget_create_plist(data.get()), H5Pclose, "H5Dget_create_plist");
    if (H5Pget_external_count(creation.get()) != 0 ||
        H5Pget_layout(creation.get()) == H5D_VIRTUAL) {
      fail(fmt::format("'{}' keeps its data in another file", path));
    }
    Attributes attributes = read_attributes(data, path);
    const bool generated = attributes.erase(kGeneratedName) != 0;
    if (generated && H5Dget_storage_size(data.get()) == 0) {
      return;  // the name of a long axis
    }
    Handle space(H5Dget_space(data.get()), H5Sclose, "H5Dget_space");
    Handle type(H5Dget_type(data.get()), H5Tclose, "H5Dget_type");
    Array array;
    const int rank = h5_check(H5Sget_simple_extent_ndims(space.get()), "H5Sget_ndims");
    std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
    h5_check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), "H5Sget_dims");
    const std::uint64_t element_bytes = H5Tget_size(type.get());
    // Nothing is compressed, so no array is larger than the file.
    std::uint64_t room = element_bytes == 0 ? 0 : num_bytes_ / element_bytes;
    std::uint64_t count = 1;
    for (const hsize_t extent : extents) {
      if (extent != 0 && count > room / extent) {
        fail(fmt::format("'{}' claims more elements than the file has bytes", path));
      }
      count *= extent;
      array.shape.push_back(static_cast<std::int64_t>(extent));
    }
    read_values(data, path, type, static_cast<std::size_t>(count),
                static_cast<std::size_t>(element_bytes), array);
    Attribute stored = take(attributes, kDataHashName);
    array.units = take_text(attributes, "units");
    array.long_name = take_text(attributes, "long_name");
    Sha256 hash;
    hash.update(raw_array(path, array).bytes);
    std::string digest = hash.hex();
    if (stored != Attribute(digest)) {
      fail(fmt::format("'{}': its values do not match their SHA-256", path));
    }
    if (generated) {
      check_positions(path, array);
      return;  // made by the writer from the names of the axes, and made again by the next one
    }
    if (!attributes.empty()) {
      fail(fmt::format("'{}' has an attribute '{}' we did not write", path,
                       attributes.begin()->first));
    }
    read_dimension_names(data, path, array);
    hashes_[path] = std::move(digest);
    document_.arrays[path] = std::move(array);
  }

  void read_values(const Handle& data, const std::string& path, const Handle& type,
                   std::size_t count, std::size_t element_bytes, Array& array) const {
    const auto read = [&](hid_t memory_type, void* target) {
      if (count > 0) {
        h5_check(H5Dread(data.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, target),
                 "H5Dread");
      }
    };
    const auto read_numbers = [&](auto zero, hid_t memory_type) {
      std::vector<decltype(zero)> values(count, zero);
      read(memory_type, values.data());
      array.values = std::move(values);
    };
    const H5T_class_t kind = H5Tget_class(type.get());
    if (kind == H5T_FLOAT && element_bytes == sizeof(double)) {
      read_numbers(0.0, H5T_NATIVE_DOUBLE);
    } else if (kind == H5T_FLOAT && element_bytes == sizeof(float)) {
      read_numbers(0.0F, H5T_NATIVE_FLOAT);
    } else if (kind == H5T_INTEGER && element_bytes == sizeof(std::int64_t)) {
      read_numbers(std::int64_t{0}, H5T_NATIVE_INT64);
    } else if (kind == H5T_STRING && H5Tis_variable_str(type.get()) == 0) {
      std::vector<char> padded(count * element_bytes);
      Handle memory_type = utf8_type(element_bytes);
      read(memory_type.get(), padded.data());
      std::vector<std::string> texts(count);
      for (std::size_t i = 0; i < count; ++i) {
        const char* begin = padded.data() + i * element_bytes;
        texts[i].assign(begin, strnlen(begin, element_bytes));
      }
      array.values = std::move(texts);
    } else {
      fail(fmt::format("'{}' has a type we do not write", path));
    }
  }

  void check_positions(const std::string& path, const Array& array) const {
    const auto* positions = std::get_if<std::vector<std::int64_t>>(&array.values);
    bool good = positions != nullptr && array.shape.size() == 1;
    for (std::size_t i = 0; good && i < positions->size(); ++i) {
      good = (*positions)[i] == static_cast<std::int64_t>(i);
    }
    if (!good) {
      fail(fmt::format("'{}' is not 0, 1, 2, ...", path));
    }
  }

  void read_dimension_names(const Handle& data, const std::string& path, Array& array) const {
    for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
      std::array<char, 512> name{};
      const ssize_t length =
          h5_check(H5DSget_label(data.get(), static_cast<unsigned>(axis), name.data(), name.size()),
                   "H5DSget_label");
      if (length >= static_cast<ssize_t>(name.size())) {
        fail(fmt::format("'{}' has a dimension with a name of {} bytes", path, length));
      }
      if (length > 0) {
        array.dimensions.emplace_back(name.data());
      }
    }
    if (!array.dimensions.empty() && array.dimensions.size() != array.shape.size()) {
      fail(fmt::format("'{}' has names for some axes only", path));
    }
  }

  fs::path path_;
  std::uint64_t num_bytes_;
  Handle file_;
  Document document_;
  std::map<std::string, std::string> hashes_;
};

}  // namespace

Document read_document(const fs::path& path) {
  prepare_hdf5();
  const std::uint64_t num_bytes = check_seal(path);
  try {
    return Reader(path, num_bytes).read();
  } catch (const BackendError& error) {
    throw Error(Fault::kData, fmt::format("{}: damaged: {}", path.string(), error.what()));
  }
}

}  // namespace apo::store
