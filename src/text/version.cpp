#define ONIG_ESCAPE_UCHAR_COLLISION  // ICU has a UChar too
#include "apo/text/version.hpp"

#include <array>

#include <oniguruma.h>
#include <unicode/uversion.h>

namespace apo::text {

std::string library_version() {
  UVersionInfo numbers = {};
  u_getVersion(numbers);
  std::array<char, U_MAX_VERSION_STRING_LENGTH> icu = {};
  u_versionToString(numbers, icu.data());
  return std::string("ICU ") + icu.data() + ", Oniguruma " + onig_version();
}

}  // namespace apo::text
