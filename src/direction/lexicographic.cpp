#include "lexicographic.hpp"

#include <algorithm>
#include <cmath>

#include "polytope_qp.hpp"
#include "solvers.hpp"

namespace apo::direction {

namespace {

/// Narrows (rows, absent) to the optimal face: complementary slackness with the optimum's duals.
void narrow(const ScaledLp& lp, const LpVertex& optimum, std::vector<LpRow>& rows,
            std::vector<bool>& absent) {
  for (std::size_t j = 0; j < absent.size(); ++j) {
    // NaN marks a basic variable and compares false.
    absent[j] = absent[j] || std::abs(optimum.column_dual[j]) > kZeroReducedCost;
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (std::abs(optimum.row_dual[r]) * lp.row_scale[r] > kZeroReducedCost) {
      rows[r].kind = LpRowKind::kEqual;
    }
  }
}

}  // namespace

bool has_zero_reduced_cost(const ScaledLp& lp, const LpVertex& vertex) {
  for (const double dual : vertex.column_dual) {
    if (std::abs(dual) <= kZeroReducedCost) {
      return true;
    }
  }
  for (std::size_t r = 0; r < vertex.row_dual.size(); ++r) {
    if (std::abs(vertex.row_dual[r]) * lp.row_scale[r] <= kZeroReducedCost) {
      return true;
    }
  }
  return false;
}

TieBreak break_tie(const ScaledLp& lp, const ScaledGram& gram, const LpVertex& optimum,
                   double relaxation, LinearProgram& program) {
  const std::size_t m = lp.objective.size();
  std::vector<LpRow> rows = lp.rows(relaxation);
  std::vector<bool> absent(m, false);
  narrow(lp, optimum, rows, absent);

  if (lp.mode != Mode::kUniform) {  // there mu'C 1 is what was maximised
    std::vector<double> descent = times(gram.gram, std::vector<double>(m, 1.0));
    double largest = 0.0;
    for (const double c : descent) {
      largest = std::max(largest, std::abs(c));
    }
    for (double& c : descent) {
      c = largest > 0.0 ? c / largest : 0.0;
    }
    const LpVertex* vertex = program.solve(descent, rows, LpMethod::kSimplex, absent);
    if (vertex == nullptr) {
      return {};
    }
    narrow(lp, *vertex, rows, absent);
  }

  const auto point = minimise_on_polytope(gram.gram, std::vector<double>(m, 0.0), rows, absent);
  if (!point) {
    return {};
  }
  return {point->x, {point->column_active, point->row_active, true}};
}

}  // namespace apo::direction
