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

int bound_type(LpRowKind kind) {
  switch (kind) {
    case LpRowKind::kAtLeast:
      return GLP_LO;
    case LpRowKind::kEqual:
      return GLP_FX;
    case LpRowKind::kFree:
      break;
  }
  return GLP_FR;
}

}  // namespace

LinearProgram::LinearProgram(int m, int rows)
    : m_(m), rows_(rows), thread_(std::this_thread::get_id()) {
  expects(m > 0 && rows >= 0, "linear program: no columns");
  glp_term_out(GLP_OFF);
  problem_ = glp_create_prob();
  ++live_problems;
  glp_set_obj_dir(problem_, GLP_MAX);
  glp_add_cols(problem_, m);
  glp_add_rows(problem_, rows + 1);
  glp_set_row_bnds(problem_, rows + 1, GLP_FX, 1.0, 1.0);
  const auto size = static_cast<std::size_t>(m);
  vertex_.x.resize(size);
  vertex_.column_dual.resize(size);
  vertex_.column_active.resize(size);
  vertex_.row_dual.resize(static_cast<std::size_t>(rows));
  vertex_.row_active.resize(static_cast<std::size_t>(rows) + 1);
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

void LinearProgram::load(std::span<const double> objective, std::span<const LpRow> rows,
                         const std::vector<bool>& absent) {
  row_index_.assign(1, 0);
  column_index_.assign(1, 0);
  value_.assign(1, 0.0);
  const auto add = [this](int i, int j, double entry) {
    if (entry != 0.0) {
      row_index_.push_back(i);
      column_index_.push_back(j);
      value_.push_back(entry);
    }
  };
  for (int i = 1; i <= rows_; ++i) {
    const LpRow& row = rows[static_cast<std::size_t>(i - 1)];
    for (int j = 1; j <= m_ && row.kind != LpRowKind::kFree; ++j) {
      add(i, j, row.coefficients[static_cast<std::size_t>(j - 1)]);
    }
    glp_set_row_bnds(problem_, i, bound_type(row.kind), row.bound, row.bound);
  }
  for (int j = 1; j <= m_; ++j) {
    const auto column = static_cast<std::size_t>(j - 1);
    add(rows_ + 1, j, 1.0);
    glp_set_obj_coef(problem_, j, objective[column]);
    glp_set_col_bnds(problem_, j, !absent.empty() && absent[column] ? GLP_FX : GLP_LO, 0.0, 0.0);
  }
  glp_load_matrix(problem_, static_cast<int>(value_.size()) - 1, row_index_.data(),
                  column_index_.data(), value_.data());
}

void LinearProgram::read_vertex(std::span<const LpRow> rows, const std::vector<bool>& absent) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (int j = 1; j <= m_; ++j) {
    const auto column = static_cast<std::size_t>(j - 1);
    const bool present = absent.empty() || !absent[column];
    const bool active = present && glp_get_col_stat(problem_, j) != GLP_BS;
    vertex_.x[column] = glp_get_col_prim(problem_, j);
    vertex_.column_active[column] = active;
    vertex_.column_dual[column] = active ? glp_get_col_dual(problem_, j) : kNone;
  }
  for (int i = 1; i <= rows_ + 1; ++i) {
    const auto row = static_cast<std::size_t>(i - 1);
    const bool active = glp_get_row_stat(problem_, i) != GLP_BS;
    vertex_.row_active[row] = active;
    if (i <= rows_) {
      const bool inequality = rows[row].kind == LpRowKind::kAtLeast;
      vertex_.row_dual[row] = active && inequality ? glp_get_row_dual(problem_, i) : kNone;
    }
  }
}

const LpVertex* LinearProgram::solve(std::span<const double> objective, std::span<const LpRow> rows,
                                     LpMethod method, const std::vector<bool>& absent) {
  expects(in_own_thread(), "linear program: used in a thread other than the one that made it");
  expects(static_cast<int>(objective.size()) == m_ && static_cast<int>(rows.size()) == rows_ &&
              (absent.empty() || static_cast<int>(absent.size()) == m_),
          "linear program: wrong size");
  load(objective, rows, absent);
  if (!warm_start_ || !solved_) {
    glp_std_basis(problem_);
  }

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
  solved_ = code == 0 && glp_get_status(problem_) == GLP_OPT;
  if (!solved_) {
    return nullptr;
  }
  read_vertex(rows, absent);
  return &vertex_;
}

}  // namespace apo::direction
