#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "apo/store/document.hpp"

namespace apo::store {

/// One of everything: all types, tables with rows and without, texts of several lengths and
/// scripts, axes with and without coordinates of their own.
inline Document sample_document() {
  Document document;
  auto& root = document.attributes[""];
  root["format_version"] = std::int64_t{1};
  root["configuration"] = std::string("[runtime]\nseed = 7\nname = \u00fcber\n");
  root["learning_rate"] = 5e-5;
  root["objectives"] = std::vector<std::string>{"helpfulness", "honesty", ""};
  root["sizes"] = std::vector<std::int64_t>{3, -1, std::numeric_limits<std::int64_t>::max()};
  root["weights"] = std::vector<double>{0.25, 0.75};
  root["nothing"] = std::vector<double>{};
  root["no_names"] = std::vector<std::string>{};
  root["empty_text"] = std::string();
  document.attributes["phase1"]["method"] = std::string("apo");

  Table steps;
  steps.integer("round", "", "round");
  steps.real("loss", "nat", "loss per objective", {2});
  steps.real("gram", "1", "Gram matrix", {2, 2});
  steps.text("mode", "what the solver did");
  for (std::int64_t t = 0; t < 300; ++t) {
    const double x = static_cast<double>(t);
    steps.push("round", t * 10);
    steps.push("loss", std::vector<double>{1.0 / (1.0 + x), -0.0});
    steps.push("gram", std::vector<double>{x, 1.0, 1.0, std::sqrt(x)});
    steps.push("mode", t % 2 == 0 ? std::string("descent") : std::string("\u03bb \u2264 1"));
  }
  document.put_table("phase1/steps", steps, "round");

  Table empty;
  empty.integer("client", "", "client");
  empty.real("score", "1", "score", {3});
  empty.text("response", "text");
  document.put_table("evaluation/responses", empty, "row");

  document.arrays["clients/preference"] = {std::vector<double>{0.1, 0.9, 0.5, 0.5, 1.0, 0.0},
                                           {3, 2},
                                           "1",
                                           "lambda",
                                           {"client", "objective"}};
  document.arrays["clients/name"] = {
      std::vector<std::string>{"a", "", "long name"}, {3}, "", "name", {"client"}};
  // A column named as the axis, but with a meaning of its own.
  document.arrays["clusters/client"] = {std::vector<std::int64_t>{4, 5}, {2}, "", "", {"cluster"}};
  document.arrays["clusters/share"] = {
      std::vector<double>{0.5, 0.25, 0.125}, {3}, "1", "share", {"client"}};
  document.arrays["adapter"] = {std::vector<float>{1.5F, -2.25F, std::nanf("")}, {3}, "", "", {}};
  document.arrays["seed"] = {std::vector<std::int64_t>{42}, {}, "", "a scalar", {}};
  document.arrays["note"] = {std::vector<std::string>{"a scalar text"}, {}, "", "", {}};
  std::vector<double> large(200'000);
  for (std::size_t i = 0; i < large.size(); ++i) {
    large[i] = std::sin(static_cast<double>(i));
  }
  document.arrays["large"] = {
      std::move(large), {2, 100'000}, "", "several chunks", {"cluster", "parameter"}};
  return document;
}

/// Bitwise, because NaN != NaN.
inline bool same_array(const Array& a, const Array& b) {
  const auto same_values = [&]<class T>(const std::vector<T>& x) {
    const auto* y = std::get_if<std::vector<T>>(&b.values);
    if (y == nullptr || x.size() != y->size()) {
      return false;
    }
    if constexpr (std::is_same_v<T, std::string>) {
      return x == *y;
    } else {
      return x.empty() || std::memcmp(x.data(), y->data(), x.size() * sizeof(T)) == 0;
    }
  };
  return a.shape == b.shape && a.units == b.units && a.long_name == b.long_name &&
         a.dimensions == b.dimensions && std::visit(same_values, a.values);
}

inline bool same_document(const Document& a, const Document& b) {
  if (a.attributes != b.attributes || a.arrays.size() != b.arrays.size()) {
    return false;
  }
  for (const auto& [path, array] : a.arrays) {
    const auto other = b.arrays.find(path);
    if (other == b.arrays.end() || !same_array(array, other->second)) {
      return false;
    }
  }
  return true;
}

}  // namespace apo::store
