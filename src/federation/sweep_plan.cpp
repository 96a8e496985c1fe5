#include "apo/federation/sweep_plan.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "apo/core/error.hpp"

namespace apo::federation {
namespace {

constexpr int kMaxBudget = 1000000;

std::optional<int> budget_number(std::string_view text) {
  int value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || stop != text.data() + text.size() || value < 1 || value > kMaxBudget) {
    return std::nullopt;
  }
  return value;
}

[[noreturn]] void refuse_budgets(std::string_view part, std::string_view text) {
  throw Error(Fault::kConfig, "--budgets " + std::string(text) + ": '" + std::string(part) +
                                  "' is neither a number nor a range of rising numbers in [1, " +
                                  std::to_string(kMaxBudget) +
                                  "]; expected for example 1-16 or 1,2,4-8");
}

template <class T>
std::vector<std::vector<T>> part_of(const std::vector<std::vector<T>>& lists, int cluster) {
  std::vector<std::vector<T>> part;
  if (!lists.empty()) {
    part.push_back(lists.at(static_cast<std::size_t>(cluster)));
  }
  return part;
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Lists over the variants, each of which holds one entry per cluster.
template <class T>
void append_each(std::vector<std::vector<T>>& all, const std::vector<std::vector<T>>& more) {
  all.resize(more.size());
  for (std::size_t k = 0; k < more.size(); ++k) {
    append(all[k], more[k]);
  }
}

}  // namespace

std::vector<int> parse_budgets(std::string_view text) {
  std::set<int> budgets;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, comma - at);
    const std::size_t dash = part.find('-');
    const auto first = budget_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : budget_number(part.substr(dash + 1));
    if (!first || !last || *last < *first) {
      refuse_budgets(part, text);
    }
    for (int budget = *first; budget <= *last; ++budget) {
      budgets.insert(budget);
    }
    at = comma + 1;
  }
  return {budgets.begin(), budgets.end()};
}

SweepPlan plan_sweep(std::span<const std::vector<TrainingGroup>> budgets) {
  SweepPlan plan;
  std::map<std::vector<ClientId>, int> known;
  for (const std::vector<TrainingGroup>& groups : budgets) {
    std::vector<int>& cluster_of = plan.cluster_of.emplace_back();
    for (const TrainingGroup& group : groups) {
      const auto [found, is_new] = known.emplace(group.members, plan.num_clusters());
      if (is_new) {
        plan.clusters.push_back(group);
      }
      cluster_of.push_back(found->second);
    }
  }
  return plan;
}

std::vector<std::vector<int>> disjoint_parts(std::span<const TrainingGroup> groups,
                                             std::span<const int> wanted) {
  std::vector<std::vector<int>> parts;
  std::vector<std::set<ClientId>> taken;
  for (const int cluster : wanted) {
    const std::vector<ClientId>& members = groups[static_cast<std::size_t>(cluster)].members;
    std::size_t part = 0;
    const auto overlaps = [&](ClientId client) { return taken[part].contains(client); };
    while (part < parts.size() && std::any_of(members.begin(), members.end(), overlaps)) {
      ++part;
    }
    if (part == parts.size()) {
      parts.emplace_back();
      taken.emplace_back();
    }
    parts[part].push_back(cluster);
    taken[part].insert(members.begin(), members.end());
  }
  return parts;
}

TrainingState state_of_cluster(const TrainingState& state, int cluster,
                               const TrainingGroup& group) {
  const auto c = static_cast<std::size_t>(cluster);
  TrainingState one;
  one.phase1_rounds = state.phase1_rounds;
  one.variant = state.variant;
  one.phase2_rounds = state.phase2_rounds;
  one.parameters = part_of(state.parameters, cluster);
  one.memory = part_of(state.memory, cluster);
  one.was_uniform.assign(state.was_uniform.size(), 0);
  for (const ClientId client : group.members) {
    one.was_uniform[client.index()] = state.was_uniform[client.index()];
  }
  for (const auto& start : state.starts) {
    one.starts.push_back(part_of(start, cluster));
  }
  one.meta = part_of(state.meta, cluster);
  if (!state.server.empty()) {
    one.server.push_back(state.server.at(c));
  }
  for (const auto& finished : state.finished) {
    one.finished.push_back(part_of(finished, cluster));
  }
  return one;
}

Progress progress_of(const TrainingState& state) {
  return {state.phase1_rounds, state.variant, state.phase2_rounds};
}

TrainingState joined(std::span<const TrainingState> states) {
  expects(!states.empty(), "joined: no states");
  TrainingState all;
  all.phase1_rounds = states[0].phase1_rounds;
  all.variant = states[0].variant;
  all.phase2_rounds = states[0].phase2_rounds;
  all.was_uniform.assign(states[0].was_uniform.size(), 0);
  for (const TrainingState& one : states) {
    expects(progress_of(one) == progress_of(states[0]) &&
                one.starts.size() == states[0].starts.size() &&
                one.finished.size() == states[0].finished.size() &&
                one.meta.size() == states[0].meta.size() &&
                one.was_uniform.size() == all.was_uniform.size(),
            "joined: states of unequal progress");
    append(all.parameters, one.parameters);
    append(all.memory, one.memory);
    append(all.meta, one.meta);
    append(all.server, one.server);
    append_each(all.starts, one.starts);
    append_each(all.finished, one.finished);
    std::transform(all.was_uniform.begin(), all.was_uniform.end(), one.was_uniform.begin(),
                   all.was_uniform.begin(),
                   [](std::int8_t a, std::int8_t b) { return std::max(a, b); });
  }
  return all;
}

void renumber(Table& table, int cluster) {
  if (Column* column = table.find("cluster")) {
    auto* values = std::get_if<std::vector<std::int64_t>>(&column->values);
    expects(values != nullptr, "renumber: the column of clusters holds no integers");
    std::fill(values->begin(), values->end(), std::int64_t{cluster});
  }
}

void renumber(RoundReport& report, int cluster) {
  report.cluster = cluster;
  for (StepRecord& step : report.steps) {
    step.cluster = cluster;
  }
  for (Table* table : {&report.theory_round, &report.theory_clients, &report.theory_pairs}) {
    renumber(*table, cluster);
  }
}

bool runs_before(const RoundReport& a, const RoundReport& b) {
  return std::tie(a.phase, a.start_round, a.round) < std::tie(b.phase, b.start_round, b.round);
}

}  // namespace apo::federation
