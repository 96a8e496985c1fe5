#include "hdf5_handle.hpp"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "apo/store/document.hpp"

namespace apo::store {
namespace {

struct StackSummary {
  std::string outermost;
  std::string innermost;
  std::string system;  ///< what the operating system said
};

herr_t summarise(unsigned /*n*/, const H5E_error2_t* error, void* target) {
  auto& summary = *static_cast<StackSummary*>(target);
  const std::string text = error->desc != nullptr ? error->desc : "?";
  if (summary.outermost.empty()) {
    summary.outermost = text;
  } else {
    summary.innermost = text;
  }
  constexpr std::string_view kMark = "error message = '";
  if (const auto at = text.find(kMark); at != std::string::npos) {
    const auto begin = at + kMark.size();
    summary.system = text.substr(begin, text.find('\'', begin) - begin);
  }
  return 0;
}

}  // namespace

void prepare_hdf5() {
  static const bool done = [] {
    // Before anything else in the library: afterwards it has no effect.
    H5dont_atexit();
    h5_check(H5open(), "H5open");
    h5_check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2");
    h5_check(H5PLset_loading_state(0), "H5PLset_loading_state");
    return true;
  }();
  (void)done;
}

std::string hdf5_error_text() {
  StackSummary summary;
  const herr_t code = H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, summarise, &summary);
  H5Eclear2(H5E_DEFAULT);
  if (code < 0 || summary.outermost.empty()) {
    return "no message from HDF5";
  }
  const std::string& cause = summary.system.empty() ? summary.innermost : summary.system;
  return cause.empty() ? summary.outermost : summary.outermost + ": " + cause;
}

Handle::Handle(hid_t id, Close closer, const char* call, Where where)
    : id_(h5_check(id, call, where)), close_(closer) {}
Handle::Handle(Handle&& other) noexcept
    : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    Handle old(std::move(*this));
    id_ = std::exchange(other.id_, H5I_INVALID_HID);
    close_ = other.close_;
  }
  return *this;
}
Handle::~Handle() {
  if (id_ >= 0) {
    close_(id_);
  }
}
void Handle::close(const char* call, Where where) {
  if (id_ >= 0) {
    h5_check(close_(std::exchange(id_, H5I_INVALID_HID)), call, where);
  }
}

std::string library_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  prepare_hdf5();
  h5_check(H5get_libversion(&major, &minor, &release), "H5get_libversion");
  const std::string running = fmt::format("{}.{}.{}", major, minor, release);
  const std::string built = fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  return "HDF5 " + running + (running == built ? "" : " (headers " + built + ")");
}

Handle utf8_type(std::size_t num_bytes) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "H5Tcopy");
  h5_check(H5Tset_size(type.get(), num_bytes), "H5Tset_size");
  h5_check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset");
  if (num_bytes != H5T_VARIABLE) {
    h5_check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "H5Tset_strpad");
  }
  return type;
}

}  // namespace apo::store
