#include "normalizer.hpp"

#include <limits>

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uniset.h>

#include "apo/core/error.hpp"

namespace apo::text {
namespace {

void check(UErrorCode status, std::string_view call) {
  if (U_FAILURE(status)) {
    throw BackendError(call, static_cast<long>(status), u_errorName(status));
  }
}

const icu::Normalizer2& reference_nfc() {
  static const auto* const normalizer = [] {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
    check(status, "icu::Normalizer2::getNFCInstance");
    static icu::UnicodeSet known(icu::UnicodeString("[:age=9.0:]"), status);
    check(status, "icu::UnicodeSet");
    known.freeze();
    static const icu::FilteredNormalizer2 filtered(*nfc, known);
    return &filtered;
  }();
  return *normalizer;
}

}  // namespace

std::string normalize_nfc(std::string_view text) {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(Fault::kData, "a text of more than 2 GiB cannot be normalised");
  }
  const icu::Normalizer2& nfc = reference_nfc();
  std::string out;
  out.reserve(text.size());
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  nfc.normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int>(text.size())), sink, nullptr,
                    status);
  check(status, "icu::Normalizer2::normalizeUTF8");
  return out;
}

}  // namespace apo::text
