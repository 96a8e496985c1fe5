#pragma once

/// @file
/// Inside the room: max c'x over { x >= 0, 1'x = 1, a_r'x >= b_r or = b_r for the rows r } on GLPK.
/// No glpk.h here: it stays in linear_program.cpp.

#include <cstdint>
#include <span>
#include <thread>
#include <vector>

struct glp_prob;

namespace apo::direction {

enum class LpMethod : std::int8_t { kSimplex, kScaledSimplex, kExact };

enum class LpRowKind : std::int8_t {
  kFree,     ///< no constraint
  kAtLeast,  ///< a'x >= b
  kEqual,    ///< a'x = b
};

struct LpRow {
  std::span<const double> coefficients;  ///< a, [m]
  double bound = 0.0;                    ///< b
  LpRowKind kind = LpRowKind::kAtLeast;
};

/// A vertex of a linear program with its basis: the active rows and columns determine x.
struct LpVertex {
  std::vector<double> x;            ///< [m], as GLPK gives it: entries may be -1e-17
  std::vector<double> column_dual;  ///< [m] reduced cost of the non-basic columns, else NaN
  std::vector<double> row_dual;     ///< [rows] of the non-basic inequalities, else NaN
  std::vector<bool> column_active;  ///< [m] non-basic: held at 0
  std::vector<bool> row_active;     ///< [rows + 1] non-basic: tight; the last is the simplex row
};

/// One persistent GLPK problem of m columns and a fixed number of rows. Answers do not depend on
/// earlier calls: everything is loaded anew and the basis reset (warm starts would make tied optima
/// depend on the history, and gain little at this size: tests/bench/lp_step). Belongs to the thread
/// that makes it.
class LinearProgram {
 public:
  LinearProgram(int m, int rows);
  ~LinearProgram();
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  /// All numbers must be finite: GLPK aborts on a NaN bound and answers wrongly on a NaN
  /// coefficient.
  ///
  /// @param rows    as many as the program was made for
  /// @param absent  columns held at 0, [m] or empty for none; they are neither active nor have
  /// duals
  /// @return valid until the next call; null when GLPK stopped at a limit or reported no optimum
  [[nodiscard]] const LpVertex* solve(std::span<const double> objective,
                                      std::span<const LpRow> rows, LpMethod method,
                                      const std::vector<bool>& absent = {});

  [[nodiscard]] bool in_own_thread() const noexcept {
    return thread_ == std::this_thread::get_id();
  }
  /// For measurements only: whether solve() starts from the basis of the call before.
  void set_warm_start(bool on) noexcept { warm_start_ = on; }

 private:
  void load(std::span<const double> objective, std::span<const LpRow> rows,
            const std::vector<bool>& absent);
  void read_vertex(std::span<const LpRow> rows, const std::vector<bool>& absent);

  int m_;
  int rows_;
  bool warm_start_ = false;
  bool solved_ = false;  // the problem holds the basis of an earlier call
  glp_prob* problem_;
  std::thread::id thread_;
  LpVertex vertex_;
  // The matrix as GLPK wants it: triplets from position 1 on.
  std::vector<int> row_index_;
  std::vector<int> column_index_;
  std::vector<double> value_;
};

}  // namespace apo::direction
