#include "apo/core/simplex.hpp"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

#include "apo/core/error.hpp"

namespace apo {

std::vector<double> normalised_preference(std::span<const double> values, std::string_view what,
                                          double floor) {
  if (values.empty()) {
    throw Error(Fault::kData, fmt::format("{}: a preference needs at least one entry", what));
  }
  double sum = 0.0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (!std::isfinite(values[j]) || values[j] < 0.0) {
      throw Error(Fault::kData,
                  fmt::format("{}: entry {} of the preference is {}, expected a finite number that "
                              "is not negative",
                              what, j + 1, values[j]));
    }
    sum += values[j];
  }
  if (!(sum > 0.0) || !std::isfinite(sum)) {
    throw Error(Fault::kData,
                fmt::format("{}: the preference sums to {}, expected a positive sum", what, sum));
  }
  std::vector<double> result(values.begin(), values.end());
  double lifted = 0.0;
  for (double& x : result) {
    x = std::max(x / sum, floor);
    lifted += x;
  }
  for (double& x : result) {
    x /= lifted;
  }
  return result;
}

}  // namespace apo
