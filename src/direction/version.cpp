#include "apo/direction/version.hpp"

#include <glpk.h>

namespace apo::direction {

std::string library_version() {
  const std::string running = glp_version();
  const std::string built =
      std::to_string(GLP_MAJOR_VERSION) + "." + std::to_string(GLP_MINOR_VERSION);
  return "GLPK " + running + (running == built ? "" : " (headers " + built + ")");
}

}  // namespace apo::direction
