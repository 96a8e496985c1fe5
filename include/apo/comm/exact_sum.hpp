#pragma once

/// @file
/// Sums that do not depend on the order of their terms, on the number of ranks, or on which rank
/// holds which term.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "apo/comm/cluster_communicator.hpp"

namespace apo::comm {

/// Elements that share an exponent.
inline constexpr std::size_t kExactSumBlock = 1024;
/// Terms of all ranks together, at most.
inline constexpr std::size_t kExactSumMaxTerms = std::size_t{1} << 20;

/// Adds one term of this rank to `slice`, which holds zeros: elements
/// [begin, begin + slice.size()) of the sum. Called once or twice for every slice, and gives the
/// same both times.
using AddTerm = std::function<void(std::size_t term, std::size_t begin, std::span<double> slice)>;

/// Sum in fixed point. Per block of kExactSumBlock elements, with 2^e the first power of 16 above
/// every magnitude of the block in any term of any rank, each term is rounded once, to a multiple
/// of the unit
///
///     u = 2^(e - b),   b = min(51, 62 - ceil(log2 max_terms)),
///
/// and these integers are added exactly, by one all-reduce of 64-bit integers. The sum is rounded
/// once more, to double.
///
/// Error: |sum - exact| <= T u / 2 + 2^-53 |exact| for T terms that are not zero in the element;
/// up to 2048 terms that is T 2^-48 times the largest magnitude in the block. A double's own range
/// (denormal numbers, overflow to infinity) holds. A block with a number that is not finite becomes
/// NaN, all of it, on all ranks.
///
/// The same bits for any number of ranks, any placement of the terms and any order of them.
///
/// Cost: 8 bytes per element in one all-reduce; before it a small one of the exponents, 8 bytes per
/// block; after it one of 16 bytes. A block's terms are computed once where this rank alone has the
/// block's exponent, as with one rank, and at most 32 terms; else twice. No memory of the sum's
/// size beside `sum`.
///
/// Collective over the team.
///
/// @param[out] sum   [n] overwritten; n equal on all ranks
/// @param num_terms  of this rank, 0 allowed
/// @param max_terms  bound on the terms of all ranks together, equal on all ranks,
///                   1 .. kExactSumMaxTerms
/// @param cuts       positions in 0 .. n, ascending, equal on all ranks: no block reaches across
///                   one. For neighbours of very different size, such as a direction and a mass
/// @throws Error  on all ranks: what `add` threw on the lowest failing one; Error(kInternal) where
///                max_terms differs between ranks, is out of its range, or is exceeded
void exact_sum(ClusterCommunicator& team, std::span<double> sum, std::size_t num_terms,
               std::size_t max_terms, const AddTerm& add, std::span<const std::size_t> cuts = {});

}  // namespace apo::comm
