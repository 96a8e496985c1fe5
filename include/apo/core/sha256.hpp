#pragma once

/// @file
/// SHA-256 of bytes, as 64 lower-case hexadecimal digits.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace apo {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  [[nodiscard]] std::string hex();  ///< ends the computation; call once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] std::string sha256_hex(std::string_view text);

[[nodiscard]] std::string sha256_library();  ///< "OpenSSL 3.0.17 1 Jul 2025", as it runs

}  // namespace apo
