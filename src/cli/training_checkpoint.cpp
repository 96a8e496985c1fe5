#include "training_checkpoint.hpp"

#include <string>

#include "apo/core/error.hpp"

namespace apo::cli {
namespace {

using Vectors = std::vector<std::vector<float>>;

/// [n, P]
store::Array to_array(const Vectors& vectors) {
  store::Array array;
  std::vector<float> flat;
  for (const auto& row : vectors) {
    flat.insert(flat.end(), row.begin(), row.end());
  }
  const auto columns = vectors.empty() ? 0 : static_cast<std::int64_t>(vectors[0].size());
  array.shape = {static_cast<std::int64_t>(vectors.size()), columns};
  array.values = std::move(flat);
  return array;
}

Vectors from_array(const store::Document& document, const std::string& path) {
  const store::Array& array = document.array(path);
  const auto* flat = std::get_if<std::vector<float>>(&array.values);
  if (flat == nullptr || array.shape.size() != 2) {
    throw Error(Fault::kData, "checkpoint: " + path + " is not a float32 matrix");
  }
  Vectors vectors;
  const auto columns = array.shape[1];
  for (std::int64_t i = 0; i < array.shape[0]; ++i) {
    vectors.emplace_back(flat->begin() + i * columns, flat->begin() + (i + 1) * columns);
  }
  return vectors;
}

template <class Number>
store::Array to_vector(const std::vector<Number>& values) {
  store::Array array;
  array.shape = {static_cast<std::int64_t>(values.size())};
  array.values = values;
  return array;
}

template <class Number>
std::vector<Number> vector(const store::Document& document, const std::string& path) {
  const auto* values = std::get_if<std::vector<Number>>(&document.array(path).values);
  if (values == nullptr) {
    throw Error(Fault::kData, "checkpoint: " + path + " has another type");
  }
  return *values;
}

std::string numbered(const std::string& name, std::size_t k) {
  return "state/" + name + "_" + std::to_string(k);
}

std::int64_t integer(const store::Document& document, const std::string& name) {
  const auto* value = std::get_if<std::int64_t>(&document.attribute("state", name));
  if (value == nullptr) {
    throw Error(Fault::kData, "checkpoint: attribute state/" + name + " is not an integer");
  }
  return *value;
}

}  // namespace

void put_state(store::Document& document, const federation::TrainingState& state) {
  auto& attributes = document.attributes["state"];
  attributes["phase1_rounds"] = std::int64_t{state.phase1_rounds};
  attributes["variant"] = std::int64_t{state.variant};
  attributes["phase2_rounds"] = std::int64_t{state.phase2_rounds};
  attributes["num_starts"] = static_cast<std::int64_t>(state.starts.size());
  attributes["num_finished"] = static_cast<std::int64_t>(state.finished.size());
  attributes["has_meta"] = std::int64_t{state.meta.empty() ? 0 : 1};
  document.arrays["state/parameters"] = to_array(state.parameters);
  for (std::size_t c = 0; c < state.memory.size(); ++c) {
    document.arrays[numbered("memory", c)] = to_vector(state.memory[c]);
  }
  document.arrays["state/was_uniform"] =
      to_vector(std::vector<std::int64_t>(state.was_uniform.begin(), state.was_uniform.end()));
  for (std::size_t k = 0; k < state.starts.size(); ++k) {
    document.arrays[numbered("start", k)] = to_array(state.starts[k]);
  }
  for (std::size_t k = 0; k < state.finished.size(); ++k) {
    document.arrays[numbered("finished", k)] = to_array(state.finished[k]);
  }
  if (state.meta.empty()) {
    return;
  }
  document.arrays["state/meta"] = to_array(state.meta);
  std::vector<std::int64_t> steps;
  for (std::size_t c = 0; c < state.server.size(); ++c) {
    steps.push_back(state.server[c].step);
    if (state.server[c].step > 0) {
      document.arrays[numbered("server_m", c)] = to_array({state.server[c].m});
      document.arrays[numbered("server_v", c)] = to_array({state.server[c].v});
    }
  }
  document.arrays["state/server_step"] = to_vector(steps);
}

federation::TrainingState get_state(const store::Document& document) {
  federation::TrainingState state;
  state.phase1_rounds = static_cast<int>(integer(document, "phase1_rounds"));
  state.variant = static_cast<int>(integer(document, "variant"));
  state.phase2_rounds = static_cast<int>(integer(document, "phase2_rounds"));
  state.parameters = from_array(document, "state/parameters");
  for (std::size_t c = 0; c < state.parameters.size(); ++c) {
    state.memory.push_back(vector<double>(document, numbered("memory", c)));
  }
  const auto modes = vector<std::int64_t>(document, "state/was_uniform");
  state.was_uniform.assign(modes.begin(), modes.end());
  const auto num_starts = static_cast<std::size_t>(integer(document, "num_starts"));
  for (std::size_t k = 0; k < num_starts; ++k) {
    state.starts.push_back(from_array(document, numbered("start", k)));
  }
  const auto num_finished = static_cast<std::size_t>(integer(document, "num_finished"));
  for (std::size_t k = 0; k < num_finished; ++k) {
    state.finished.push_back(from_array(document, numbered("finished", k)));
  }
  if (integer(document, "has_meta") == 0) {
    return state;
  }
  state.meta = from_array(document, "state/meta");
  const auto steps = vector<std::int64_t>(document, "state/server_step");
  if (steps.size() != state.meta.size()) {
    throw Error(Fault::kData, "checkpoint: state/server_step does not match state/meta");
  }
  for (std::size_t c = 0; c < steps.size(); ++c) {
    federation::AdamWState server;
    server.step = steps[c];
    if (server.step > 0) {
      server.m = from_array(document, numbered("server_m", c)).at(0);
      server.v = from_array(document, numbered("server_v", c)).at(0);
    }
    state.server.push_back(std::move(server));
  }
  return state;
}

}  // namespace apo::cli
