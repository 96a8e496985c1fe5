#include <cmath>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "apo/core/error.hpp"
#include "apo/data/demo_domain.hpp"

namespace apo::data::demo {

namespace {

constexpr double kTie = 1e-9;  // rule scores are multiples of 1/42 and 1/100: rounding only

}  // namespace

std::string jsonl_rows(std::string_view client, std::span<const AnswerPair> pairs) {
  std::string text;
  for (const AnswerPair& pair : pairs) {
    const std::string prompt = render(pair.prompt);
    for (std::size_t j = 0; j < kNumObjectives; ++j) {
      const double difference = pair.scores[0][j] - pair.scores[1][j];
      if (std::abs(difference) < kTie) {
        continue;
      }
      const std::size_t chosen = difference > 0.0 ? 0 : 1;
      const nlohmann::ordered_json row{{"client", client},
                                       {"objective", objective_names()[j]},
                                       {"prompt", prompt},
                                       {"chosen", pair.answers[chosen]},
                                       {"rejected", pair.answers[1 - chosen]},
                                       {"split", pair.split}};
      text += row.dump();
      text += '\n';
    }
  }
  return text;
}

std::string gzip(std::string_view text) {
  constexpr int kGzipFormat = 16;  // added to the window bits
  z_stream stream{};
  int code = deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipFormat + MAX_WBITS, 9,
                          Z_DEFAULT_STRATEGY);
  if (code != Z_OK) {
    throw BackendError("deflateInit2", code, stream.msg != nullptr ? stream.msg : "");
  }
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  std::string input(text);  // next_in is not const in every zlib
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  code = deflate(&stream, Z_FINISH);
  const std::size_t num_bytes = stream.total_out;
  deflateEnd(&stream);
  if (code != Z_STREAM_END) {
    throw BackendError("deflate", code, "the output does not fit its bound");
  }
  packed.resize(num_bytes);
  return packed;
}

}  // namespace apo::data::demo
