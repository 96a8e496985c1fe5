#include "apo/federation/records.hpp"

#include <cstring>

#include "apo/core/error.hpp"

namespace apo::federation {
namespace {

class Writer {
 public:
  void put(double x) {
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof x);
    std::memcpy(bytes_.data() + at, &x, sizeof x);
  }
  void put(int x) { put(static_cast<double>(x)); }
  void put(std::uint64_t x) {
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof x);
    std::memcpy(bytes_.data() + at, &x, sizeof x);
  }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(static_cast<int>(values.size()));
    for (const T x : values) {
      put(static_cast<double>(x));
    }
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  double real() { return raw<double>(); }
  std::uint64_t word() { return raw<std::uint64_t>(); }
  std::string text() {
    const auto size = static_cast<std::size_t>(word());
    expects(position_ + size <= bytes_.size(), "records: truncated");
    position_ += size;
    return bytes_.substr(position_ - size, size);
  }
  int integer() { return static_cast<int>(real()); }
  template <class T>
  std::vector<T> list() {
    std::vector<T> values(static_cast<std::size_t>(integer()));
    for (T& x : values) {
      x = static_cast<T>(real());
    }
    return values;
  }
  [[nodiscard]] bool done() const { return position_ == bytes_.size(); }

 private:
  template <class T>
  T raw() {
    expects(position_ + sizeof(T) <= bytes_.size(), "records: truncated");
    T x{};
    std::memcpy(&x, bytes_.data() + position_, sizeof x);
    position_ += sizeof x;
    return x;
  }

  const std::string& bytes_;
  std::size_t position_ = 0;
};

}  // namespace

std::string pack(const std::vector<StepRecord>& records) {
  Writer out;
  for (const StepRecord& r : records) {
    out.put(static_cast<int>(r.phase));
    for (const int x : {r.start_round, r.cluster, r.round, r.client, r.step, r.mode, r.lp_status,
                        r.num_ascending, r.num_aligned, r.num_aligned_ascending, r.losses_floored,
                        r.num_missing, static_cast<int>(r.nonunique), static_cast<int>(r.finite)}) {
      out.put(x);
    }
    for (const double x : {r.uniformity, r.gamma, r.chebyshev, r.direction_norm, r.min_slack,
                           r.kappa_lp, r.seconds}) {
      out.put(x);
    }
    out.put(r.basis_id);
    for (const auto* values : {&r.loss, &r.accuracy, &r.adjustment, &r.mu, &r.weight, &r.gram}) {
      out.put(*values);
    }
  }
  return out.take();
}

std::vector<StepRecord> unpack(const std::string& bytes) {
  std::vector<StepRecord> records;
  Reader in(bytes);
  while (!in.done()) {
    StepRecord r;
    r.phase = static_cast<Phase>(in.integer());
    for (int* x : {&r.start_round, &r.cluster, &r.round, &r.client, &r.step, &r.mode, &r.lp_status,
                   &r.num_ascending, &r.num_aligned, &r.num_aligned_ascending, &r.losses_floored,
                   &r.num_missing}) {
      *x = in.integer();
    }
    r.nonunique = in.integer() != 0;
    r.finite = in.integer() != 0;
    for (double* x : {&r.uniformity, &r.gamma, &r.chebyshev, &r.direction_norm, &r.min_slack,
                      &r.kappa_lp, &r.seconds}) {
      *x = in.real();
    }
    r.basis_id = in.word();
    for (auto* values : {&r.loss, &r.accuracy, &r.adjustment, &r.mu, &r.weight, &r.gram}) {
      *values = in.list<double>();
    }
    records.push_back(std::move(r));
  }
  return records;
}

std::string pack(const RoundReport& r) {
  Writer out;
  for (const int x : {static_cast<int>(r.phase), r.start_round, r.cluster, r.round, r.num_failed}) {
    out.put(x);
  }
  for (const double x :
       {r.update_norm, r.learning_rate, r.seconds_clients, r.seconds_reduction, r.imbalance}) {
    out.put(x);
  }
  for (const std::int64_t x : {r.bytes_reduced, r.floats_up, r.floats_down}) {
    out.put(static_cast<std::uint64_t>(x));
  }
  out.put(r.participants);
  out.put(r.mean_loss);
  out.put(r.server_weights);
  for (const Table* table : {&r.theory_round, &r.theory_clients, &r.theory_pairs}) {
    out.put(apo::pack(*table));
  }
  return out.take();
}

RoundReport unpack_report(const std::string& bytes) {
  Reader in(bytes);
  RoundReport r;
  r.phase = static_cast<Phase>(in.integer());
  for (int* x : {&r.start_round, &r.cluster, &r.round, &r.num_failed}) {
    *x = in.integer();
  }
  for (double* x :
       {&r.update_norm, &r.learning_rate, &r.seconds_clients, &r.seconds_reduction, &r.imbalance}) {
    *x = in.real();
  }
  for (std::int64_t* x : {&r.bytes_reduced, &r.floats_up, &r.floats_down}) {
    *x = static_cast<std::int64_t>(in.word());
  }
  r.participants = in.list<int>();
  r.mean_loss = in.list<double>();
  r.server_weights = in.list<double>();
  for (Table* table : {&r.theory_round, &r.theory_clients, &r.theory_pairs}) {
    *table = unpack_table(in.text());
  }
  return r;
}

std::string pack(const RoundPacket& packet) {
  Writer out;
  out.put(packet.stop ? 1 : 0);
  out.put(packet.checkpoint ? 1 : 0);
  out.put(static_cast<std::uint64_t>(packet.reports.size()));
  for (const RoundReport& report : packet.reports) {
    out.put(pack(report));
    out.put(pack(report.steps));
  }
  return out.take();
}

RoundPacket unpack_packet(const std::string& bytes) {
  Reader in(bytes);
  RoundPacket packet;
  packet.stop = in.integer() != 0;
  packet.checkpoint = in.integer() != 0;
  for (std::uint64_t k = in.word(); k > 0; --k) {
    packet.reports.push_back(unpack_report(in.text()));
    packet.reports.back().steps = unpack(in.text());
  }
  return packet;
}

}  // namespace apo::federation
