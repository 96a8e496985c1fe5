#pragma once

/// @file
/// Who owns which pair, and stratified selections from a client's pools.

#include <cstdint>
#include <string>
#include <vector>

#include "apo/data/partition.hpp"

namespace apo::data {

struct OwnedPairs {
  std::string client;
  Pool pool;  ///< [m], ascending positions in PreferenceData::pairs
};

/// @param spec  field, even:N or dirichlet:N:ALPHA
/// @return by sorted client name; every pair exactly once, every client at least one pair
/// @throws Error(kConfig)  a spec that cannot be read
/// @throws Error(kData)    field and rows without client, more clients than pairs, or generated
///         clients while rows carry a split
[[nodiscard]] std::vector<OwnedPairs> assign_pairs(const PreferenceData& data,
                                                   const DataOptions& options, std::uint64_t seed);

/// How many to take of each objective: one each where the cap allows (as far as `total` reaches),
/// then always where most is missing to the share `weights` ask for; ties go to the first objective
/// from `first_index` on, cyclically.
///
/// @param caps     [m] most to take
/// @param weights  [m] non-negative
/// @return [m], sum min(total, sum of caps)
[[nodiscard]] std::vector<int> stratify(const std::vector<int>& caps,
                                        const std::vector<double>& weights, std::int64_t total,
                                        std::size_t first_index);

}  // namespace apo::data
