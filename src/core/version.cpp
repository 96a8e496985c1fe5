#include "apo/core/version.hpp"

namespace apo {

std::string_view version() noexcept { return APO_VERSION; }
std::string_view git_revision() noexcept { return APO_GIT_REVISION; }

}  // namespace apo
