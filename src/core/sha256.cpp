#include "apo/core/sha256.hpp"

#include <array>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "apo/core/error.hpp"

namespace apo {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  if (impl_->context == nullptr || EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) != 1) {
    throw BackendError("EVP_DigestInit_ex", 0, "SHA-256 is not available");
  }
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) != 1) {
    throw BackendError("EVP_DigestUpdate", 0, "SHA-256 failed");
  }
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (EVP_DigestFinal_ex(impl_->context, digest.data(), &length) != 1) {
    throw BackendError("EVP_DigestFinal_ex", 0, "SHA-256 failed");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * std::size_t{length});
  for (unsigned i = 0; i < length; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15U];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

std::string sha256_library() { return OpenSSL_version(OPENSSL_VERSION); }

}  // namespace apo
