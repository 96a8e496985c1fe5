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
  double real() {
    expects(position_ + sizeof(double) <= bytes_.size(), "records: truncated");
    double x = 0.0;
    std::memcpy(&x, bytes_.data() + position_, sizeof x);
    position_ += sizeof x;
    return x;
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
  const std::string& bytes_;
  std::size_t position_ = 0;
};

}  // namespace

std::string pack(const std::vector<StepRecord>& records) {
  Writer out;
  for (const StepRecord& r : records) {
    out.put(static_cast<int>(r.phase));
    for (const int x : {r.start_round, r.cluster, r.round, r.client, r.step, r.mode, r.lp_status,
                        static_cast<int>(r.nonunique), static_cast<int>(r.finite)}) {
      out.put(x);
    }
    for (const double x : {r.uniformity, r.gamma, r.chebyshev, r.direction_norm, r.seconds}) {
      out.put(x);
    }
    for (const auto* values : {&r.loss, &r.accuracy, &r.adjustment, &r.mu, &r.gram}) {
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
    for (int* x :
         {&r.start_round, &r.cluster, &r.round, &r.client, &r.step, &r.mode, &r.lp_status}) {
      *x = in.integer();
    }
    r.nonunique = in.integer() != 0;
    r.finite = in.integer() != 0;
    for (double* x : {&r.uniformity, &r.gamma, &r.chebyshev, &r.direction_norm, &r.seconds}) {
      *x = in.real();
    }
    for (auto* values : {&r.loss, &r.accuracy, &r.adjustment, &r.mu, &r.gram}) {
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
  for (const double x : {r.update_norm, r.learning_rate, r.seconds_clients, r.seconds_reduction,
                         static_cast<double>(r.bytes_reduced)}) {
    out.put(x);
  }
  out.put(r.participants);
  out.put(r.mean_loss);
  return out.take();
}

RoundReport unpack_report(const std::string& bytes) {
  Reader in(bytes);
  RoundReport r;
  r.phase = static_cast<Phase>(in.integer());
  for (int* x : {&r.start_round, &r.cluster, &r.round, &r.num_failed}) {
    *x = in.integer();
  }
  for (double* x : {&r.update_norm, &r.learning_rate, &r.seconds_clients, &r.seconds_reduction}) {
    *x = in.real();
  }
  r.bytes_reduced = static_cast<std::int64_t>(in.real());
  r.participants = in.list<int>();
  r.mean_loss = in.list<double>();
  return r;
}

}  // namespace apo::federation
