#include "broadcast_state.hpp"

#include <span>
#include <string>
#include <vector>

#include "apo/comm/cluster_communicator.hpp"
#include "apo/core/bytes.hpp"

namespace apo::cli {
namespace {

/// The state as bytes, so that rank 0's checkpoint reaches the other ranks.
template <class Number>
void broadcast_numbers(comm::ClusterCommunicator& all, std::vector<Number>& values) {
  std::string bytes;
  if (all.rank() == 0) {
    bytes = to_bytes(std::span<const Number>(values));
  }
  all.broadcast(bytes, 0);
  values = from_bytes<Number>(bytes);
}

void broadcast(comm::ClusterCommunicator& all, std::vector<float>& values) {
  broadcast_numbers(all, values);
}
void broadcast(comm::ClusterCommunicator& all, std::vector<double>& values) {
  broadcast_numbers(all, values);
}
void broadcast(comm::ClusterCommunicator& all, std::vector<std::int8_t>& values) {
  broadcast_numbers(all, values);
}

void broadcast(comm::ClusterCommunicator& all, int& value) {
  std::vector<double> one = {static_cast<double>(value)};
  all.broadcast(std::span<double>(one), 0);
  value = static_cast<int>(one[0]);
}

template <class T>
void broadcast(comm::ClusterCommunicator& all, std::vector<T>& list) {
  int size = static_cast<int>(list.size());
  broadcast(all, size);
  list.resize(static_cast<std::size_t>(size));
  for (T& item : list) {
    broadcast(all, item);
  }
}

void broadcast(comm::ClusterCommunicator& all, federation::AdamWState& state) {
  int step = static_cast<int>(state.step);
  broadcast(all, step);
  state.step = step;
  broadcast(all, state.m);
  broadcast(all, state.v);
}

}  // namespace

void broadcast_state(comm::ClusterCommunicator& all, federation::TrainingState& state) {
  for (int* value : {&state.phase1_rounds, &state.variant, &state.phase2_rounds}) {
    broadcast(all, *value);
  }
  broadcast(all, state.parameters);
  broadcast(all, state.memory);
  broadcast(all, state.was_uniform);
  broadcast(all, state.starts);
  broadcast(all, state.meta);
  broadcast(all, state.finished);
  int servers = static_cast<int>(state.server.size());
  broadcast(all, servers);
  state.server.resize(static_cast<std::size_t>(servers));
  for (federation::AdamWState& server : state.server) {
    broadcast(all, server);
  }
}

}  // namespace apo::cli
