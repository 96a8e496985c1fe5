#include "linear_program.hpp"

#include <cmath>
#include <limits>

#include <glpk.h>

#include "apo/core/error.hpp"

namespace apo::direction {

namespace {

constexpr int kIterationLimit = 10000;  // endless loops are known on ill-conditioned input
constexpr int kTimeLimitMillis = 1000;
constexpr double kGlpkTolerance = 1e-10;  // rows and objective come scaled to 1

// GLPK's environment is per thread and freed with the thread's last problem.
thread_local int live_problems = 0;

double non_basic(int status, double dual) {
  const bool tied_to_equality = status == GLP_NS;
  return status == GLP_BS || tied_to_equality ? std::numeric_limits<double>::quiet_NaN() : dual;
}

}  // namespace

LinearProgram::LinearProgram(int m) : m_(m), thread_(std::this_thread::get_id()) {
  expects(m > 0, "linear program: no columns");
  glp_term_out(GLP_OFF);
  problem_ = glp_create_prob();
  ++live_problems;
  glp_set_obj_dir(problem_, GLP_MAX);
  glp_add_cols(problem_, m);
  for (int j = 1; j <= m; ++j) {
    glp_set_col_bnds(problem_, j, GLP_LO, 0.0, 0.0);
  }
  glp_add_rows(problem_, m + 1);
  glp_set_row_bnds(problem_, m + 1, GLP_FX, 1.0, 1.0);
}

LinearProgram::~LinearProgram() {
  if (!in_own_thread()) {
    return;  // glp_delete_prob would abort the process; the memory is left behind
  }
  glp_delete_prob(problem_);
  if (--live_problems == 0) {
    glp_free_env();
  }
}

std::optional<LpVertex> LinearProgram::solve(std::span<const double> objective,
                                             std::span<const LpRow> rows, LpMethod method) {
  expects(in_own_thread(), "linear program: used in a thread other than the one that made it");
  expects(static_cast<int>(objective.size()) == m_ && static_cast<int>(rows.size()) == m_,
          "linear program: wrong size");
  std::vector<int> row_index{0};
  std::vector<int> column_index{0};
  std::vector<double> value{0.0};
  for (int i = 1; i <= m_ + 1; ++i) {
    for (int j = 1; j <= m_; ++j) {
      const double entry =
          i > m_
              ? 1.0
              : rows[static_cast<std::size_t>(i - 1)].coefficients[static_cast<std::size_t>(j - 1)];
      if (entry != 0.0 && (i > m_ || rows[static_cast<std::size_t>(i - 1)].constrained)) {
        row_index.push_back(i);
        column_index.push_back(j);
        value.push_back(entry);
      }
    }
  }
  glp_load_matrix(problem_, static_cast<int>(value.size()) - 1, row_index.data(),
                  column_index.data(), value.data());
  for (int j = 1; j <= m_; ++j) {
    const LpRow& row = rows[static_cast<std::size_t>(j - 1)];
    glp_set_obj_coef(problem_, j, objective[static_cast<std::size_t>(j - 1)]);
    glp_set_row_bnds(problem_, j, row.constrained ? GLP_LO : GLP_FR, row.bound, 0.0);
  }
  glp_std_basis(problem_);

  glp_smcp control;
  glp_init_smcp(&control);
  control.msg_lev = GLP_MSG_OFF;
  control.meth = GLP_PRIMAL;
  control.tol_bnd = kGlpkTolerance;
  control.tol_dj = kGlpkTolerance;
  control.it_lim = kIterationLimit;
  control.tm_lim = kTimeLimitMillis;
  control.presolve = GLP_OFF;
  glp_unscale_prob(problem_);  // or an earlier answer's scaling would show in this one
  if (method == LpMethod::kScaledSimplex) {
    glp_scale_prob(problem_, GLP_SF_AUTO);
  }
  const int code =
      method == LpMethod::kExact ? glp_exact(problem_, &control) : glp_simplex(problem_, &control);
  if (code != 0 || glp_get_status(problem_) != GLP_OPT) {
    return std::nullopt;
  }
  LpVertex vertex;
  for (int j = 1; j <= m_; ++j) {
    vertex.x.push_back(glp_get_col_prim(problem_, j));
    vertex.column_dual.push_back(
        non_basic(glp_get_col_stat(problem_, j), glp_get_col_dual(problem_, j)));
    vertex.row_dual.push_back(
        non_basic(glp_get_row_stat(problem_, j), glp_get_row_dual(problem_, j)));
  }
  return vertex;
}

}  // namespace apo::direction
