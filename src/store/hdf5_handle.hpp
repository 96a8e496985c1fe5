#pragma once

/// @file
/// HDF5 handles with one owner and calls with checked codes. Private to store.

#include <string>

#include <hdf5.h>

#include "apo/core/error.hpp"

namespace apo::store {

/// Once per process, and not before: no automatic printing of errors, no filter plug-ins, no
/// clean-up at exit (which may crash after a full disk).
void prepare_hdf5();

/// HDF5's error stack in one line: the outermost message and the cause; empties the stack.
[[nodiscard]] std::string hdf5_error_text();

/// @throws BackendError  when `code` is negative, with the error stack as text
template <class Code>
Code h5_check(Code code, const char* call, Where where = Where::here()) {
  if (code < 0) [[unlikely]] {
    throw BackendError(call, static_cast<long>(code), hdf5_error_text(), where);
  }
  return code;
}

/// Sole owner of an HDF5 identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() noexcept = default;
  /// @throws BackendError  when `id` is negative: `call` had failed
  Handle(hid_t id, Close closer, const char* call, Where where = Where::here());
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  [[nodiscard]] hid_t get() const noexcept { return id_; }
  /// Closing can fail (a full disk): what was written is only safe after this. Idempotent.
  void close(const char* call, Where where = Where::here());

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

[[nodiscard]] Handle utf8_type(std::size_t num_bytes);  ///< H5T_VARIABLE or a fixed length

}  // namespace apo::store
