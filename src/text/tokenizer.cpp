#include "apo/text/tokenizer.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "added_tokens.hpp"
#include "byte_level.hpp"
#include "byte_pair_model.hpp"
#include "normalizer.hpp"
#include "pre_tokenizer.hpp"
#include "text_file.hpp"
#include "tokenizer_file.hpp"
#include "utf8.hpp"

#include "apo/core/error.hpp"

namespace apo::text {
namespace {

std::vector<AddedToken> select(const std::vector<AddedToken>& tokens, bool normalized, bool nfc) {
  std::vector<AddedToken> chosen;
  for (AddedToken token : tokens) {
    if (token.normalized != normalized) {
      continue;
    }
    if (normalized && nfc) {
      token.content = normalize_nfc(token.content);  // it is looked for in normalised text
    }
    chosen.push_back(std::move(token));
  }
  return chosen;
}

/// Where in a joined text the control tokens may be parsed.
struct Range {
  std::size_t begin;
  std::size_t end;
  ControlTokens control;
};

/// [begin, end) may become a special token only if nobody but the template wrote it.
std::optional<std::size_t> veto_range(const std::vector<Range>& ranges, std::size_t begin,
                                      std::size_t end) {
  std::optional<std::size_t> next;
  for (auto range = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                     [](std::size_t at, const Range&r) { return at < r.end; });
       range != ranges.end() && range->begin < end; ++range) {
    if (range->control == ControlTokens::kAsText) {
      next = std::min(range->end, end);
    }
  }
  return next;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerFile file);

  struct Sink {
    std::vector<std::int32_t> ids;
    std::vector<std::string_view> pieces;
    BytePairModel::Workspace workspace;
    std::int64_t num_dropped = 0;
  };

  void encode_segment(std::string_view segment, bool parse_special, Sink& sink) const;
  void encode_words(std::string_view segment, Sink& sink) const;
  void add_entry(std::int32_t id, const std::string& entry);

  BytePairModel model;
  PreTokenizer pre_tokenizer;
  AddedTokenSet raw_tokens;
  AddedTokenSet normalized_tokens;
  bool normalize;
  std::vector<std::int32_t> prefix;
  StringMap<std::int32_t> added_ids;
  std::vector<std::optional<std::string>> bytes_of_id;
  std::vector<bool> is_special;
  std::int64_t num_ids = 0;
  mutable std::atomic<std::int64_t> num_dropped{0};
};

Tokenizer::Impl::Impl(TokenizerFile file)
    : model(std::move(file.entries), file.merges, file.ignore_merges),
      pre_tokenizer(file.split),
      raw_tokens(select(file.added_tokens, false, file.normalize_nfc)),
      normalized_tokens(select(file.added_tokens, true, file.normalize_nfc)),
      normalize(file.normalize_nfc),
      prefix(std::move(file.prefix)) {
  for (const auto& [entry, id] : model.entries()) {
    add_entry(id, entry);
  }
  for (const AddedToken& token : file.added_tokens) {
    add_entry(token.id, token.content);
    added_ids.emplace(token.content, token.id);
  }
  is_special.resize(bytes_of_id.size());
  for (const AddedToken& token : file.added_tokens) {
    is_special[static_cast<std::size_t>(token.id)] = token.special;
  }
}

void Tokenizer::Impl::add_entry(std::int32_t id, const std::string& entry) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= bytes_of_id.size()) {
    bytes_of_id.resize(index + 1);
  }
  num_ids += bytes_of_id[index] ? 0 : 1;
  bytes_of_id[index] = bytes_of_entry(entry).value_or(entry);
}

void Tokenizer::Impl::encode_words(std::string_view segment, Sink& sink) const {
  sink.pieces.clear();
  pre_tokenizer.split(segment, sink.pieces);
  for (const std::string_view piece : sink.pieces) {
    sink.num_dropped += model.encode_piece(piece, sink.workspace, sink.ids);
  }
}

void Tokenizer::Impl::encode_segment(std::string_view segment, bool parse_special,
                                     Sink& sink) const {
  std::string normal;
  if (normalize) {
    normal = normalize_nfc(segment);
    segment = normal;
  }
  if (normalized_tokens.empty()) {
    encode_words(segment, sink);
    return;
  }
  const auto veto = [&](std::size_t, std::size_t end) {
    return parse_special ? std::nullopt : std::optional(end);
  };
  for (const TextPart& part : normalized_tokens.cut(segment, veto)) {
    if (part.token) {
      sink.ids.push_back(*part.token);
    } else {
      encode_words(segment.substr(part.begin, part.end - part.begin), sink);
    }
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const std::filesystem::path file = find_tokenizer_file(path);
  return Tokenizer(
      std::make_unique<Impl>(parse_tokenizer_file(read_text_file(file), file.string())));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, ControlTokens control,
                                            bool add_special_tokens) const {
  const Fragment fragment{text, control};
  return encode_fragments({&fragment, 1}, add_special_tokens);
}

std::vector<std::int32_t> Tokenizer::encode_fragments(std::span<const Fragment> fragments,
                                                      bool add_special_tokens) const {
  std::string text;
  std::vector<Range> ranges;
  for (const Fragment& fragment : fragments) {
    const std::size_t begin = text.size();
    text += is_well_formed(fragment.text) ? std::string(fragment.text)
                                          : replace_ill_formed(fragment.text);
    if (text.size() > begin) {
      ranges.push_back({begin, text.size(), fragment.control});
    }
  }
  Impl::Sink sink;
  if (add_special_tokens) {
    sink.ids = impl_->prefix;
  }
  const auto veto = [&](std::size_t begin, std::size_t end) {
    return veto_range(ranges, begin, end);
  };
  for (const TextPart& part : impl_->raw_tokens.cut(text, veto)) {
    if (part.token) {
      sink.ids.push_back(*part.token);
      continue;
    }
    // After normalisation the borders of the fragments are lost, so one fragment that is not to be
    // parsed protects its whole segment.
    const bool parse_special = !veto_range(ranges, part.begin, part.end);
    impl_->encode_segment(std::string_view(text).substr(part.begin, part.end - part.begin),
                          parse_special, sink);
  }
  impl_->num_dropped.fetch_add(sink.num_dropped, std::memory_order_relaxed);
  return std::move(sink.ids);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= impl_->bytes_of_id.size() || !impl_->bytes_of_id[index] ||
        (skip_special_tokens && impl_->is_special[index])) {
      continue;
    }
    bytes += *impl_->bytes_of_id[index];
  }
  return replace_ill_formed(bytes);
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  if (const auto added = impl_->added_ids.find(token); added != impl_->added_ids.end()) {
    return added->second;
  }
  return impl_->model.id_of(token);
}

std::int32_t Tokenizer::max_id() const {
  return static_cast<std::int32_t>(impl_->bytes_of_id.size()) - 1;
}

std::int64_t Tokenizer::vocabulary_size() const { return impl_->num_ids; }

std::string Tokenizer::kind() const { return std::string(name_of(impl_->pre_tokenizer.kind())); }

std::int64_t Tokenizer::dropped_symbols() const {
  return impl_->num_dropped.load(std::memory_order_relaxed);
}

}  // namespace apo::text
