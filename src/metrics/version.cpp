#include "apo/metrics/version.hpp"

#include <pagmo/config.hpp>

namespace apo::metrics {

std::string library_version() {
  return "pagmo " + std::to_string(PAGMO_VERSION_MAJOR) + "." +
         std::to_string(PAGMO_VERSION_MINOR) + "." + std::to_string(PAGMO_VERSION_PATCH);
}

}  // namespace apo::metrics
