#include "apo/core/error.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace apo {
namespace {

std::string with_place(Fault fault, std::string_view message, Where where) {
  if (fault != Fault::kInternal) {
    return std::string(message);
  }
  return std::string(where.file) + ":" + std::to_string(where.line) + ": " + std::string(message);
}

}  // namespace

int exit_code(Fault fault) noexcept {
  switch (fault) {
    case Fault::kConfig:
      return 64;
    case Fault::kData:
      return 65;
    case Fault::kDevice:
      return 69;
    case Fault::kInternal:
      return 70;
    case Fault::kBackend:
      return 74;
    case Fault::kRequeue:
      return 75;
  }
  return 70;
}

Error::Error(Fault fault, std::string_view message, Where where)
    : std::runtime_error(with_place(fault, message, where)), fault_(fault) {}

BackendError::BackendError(std::string_view call, long code, std::string_view text, Where where)
    : Error(Fault::kBackend,
            std::string(call) + " failed with code " + std::to_string(code) + ": " +
                std::string(text),
            where),
      code_(code) {}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

}  // namespace apo
