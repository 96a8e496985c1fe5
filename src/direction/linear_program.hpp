#pragma once

/// @file
/// Inside the room: max c'x over { x >= 0, 1'x = 1, a_j'x >= r_j for the constrained rows j } on
/// GLPK. No glpk.h here: it stays in linear_program.cpp.

#include <optional>
#include <span>
#include <thread>
#include <vector>

struct glp_prob;

namespace apo::direction {

enum class LpMethod { kSimplex, kScaledSimplex, kExact };

struct LpRow {
  std::span<const double> coefficients;  ///< a_j, [m]
  double bound = 0.0;                    ///< r_j
  bool constrained = true;               ///< a row without a constraint becomes GLP_FR
};

struct LpVertex {
  std::vector<double> x;            ///< [m], as GLPK gives it: entries may be -1e-17
  std::vector<double> column_dual;  ///< reduced cost of the non-basic columns, else NaN
  std::vector<double> row_dual;     ///< likewise of the non-basic rows
};

/// One persistent GLPK problem of m columns. Answers do not depend on earlier calls: everything is
/// loaded anew and the basis reset (warm starts would make tied optima depend on the history, and
/// gain nothing at this size). Belongs to the thread that makes it.
class LinearProgram {
 public:
  explicit LinearProgram(int m);
  ~LinearProgram();
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  /// Empty when GLPK stopped at a limit or did not report an optimum. All numbers must be finite:
  /// GLPK aborts on a NaN bound and answers wrongly on a NaN coefficient.
  [[nodiscard]] std::optional<LpVertex> solve(std::span<const double> objective,
                                              std::span<const LpRow> rows, LpMethod method);

  [[nodiscard]] bool in_own_thread() const noexcept {
    return thread_ == std::this_thread::get_id();
  }

 private:
  int m_;
  glp_prob* problem_;
  std::thread::id thread_;
};

}  // namespace apo::direction
