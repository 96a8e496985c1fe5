#define ONIG_ESCAPE_UCHAR_COLLISION  // ICU has a UChar too

#include "pre_tokenizer.hpp"

#include <array>
#include <cstddef>
#include <string>

#include "utf8.hpp"
#include <fmt/format.h>
#include <oniguruma.h>
#include <unicode/uchar.h>

#include "apo/core/error.hpp"

namespace apo::text {
namespace {

constexpr std::string_view kPatternLlama3 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kPatternQwen2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kPatternGpt2 =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";

const OnigUChar* bytes(const char* text) { return reinterpret_cast<const OnigUChar*>(text); }

std::string onig_text(int code) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> buffer{};
  onig_error_code_to_str(buffer.data(), code);
  return reinterpret_cast<const char*>(buffer.data());
}

/// Digits: categories Nd, Nl and No, which is what Rust's char::is_numeric tests.
bool is_numeric(char32_t code_point) {
  return (U_MASK(u_charType(static_cast<UChar32>(code_point))) & U_GC_N_MASK) != 0;
}

}  // namespace

std::string_view split_pattern(SplitKind kind) {
  switch (kind) {
    case SplitKind::kLlama3:
      return kPatternLlama3;
    case SplitKind::kQwen2:
      return kPatternQwen2;
    case SplitKind::kGpt2Digits:
    case SplitKind::kGpt2:
      break;
  }
  return kPatternGpt2;
}

std::string_view name_of(SplitKind kind) {
  switch (kind) {
    case SplitKind::kLlama3:
      return "llama3";
    case SplitKind::kQwen2:
      return "qwen2";
    case SplitKind::kGpt2Digits:
      return "gpt2-digits";
    case SplitKind::kGpt2:
      break;
  }
  return "gpt2";
}

struct PreTokenizer::Pattern {
  explicit Pattern(std::string_view source) {
    std::array<OnigEncoding, 1> encodings{ONIG_ENCODING_UTF8};
    onig_initialize(encodings.data(), 1);
    OnigErrorInfo info{};
    const int code = onig_new(&regex, bytes(source.data()), bytes(source.data() + source.size()),
                              ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
    if (code != ONIG_NORMAL) {
      throw BackendError("onig_new", code, onig_text(code));
    }
  }
  ~Pattern() { onig_free(regex); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  regex_t* regex = nullptr;
};

PreTokenizer::PreTokenizer(SplitKind kind)
    : kind_(kind), pattern_(std::make_unique<Pattern>(split_pattern(kind))) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view segment, std::vector<std::string_view>& pieces) const {
  if (kind_ != SplitKind::kGpt2Digits) {
    split_by_pattern(segment, pieces);
    return;
  }
  std::size_t start = 0;  // of the run without digits
  for (std::size_t position = 0; position < segment.size();) {
    const Utf8Step step = next_code_point(segment, position);
    if (is_numeric(step.code_point)) {
      split_by_pattern(segment.substr(start, position - start), pieces);
      split_by_pattern(segment.substr(position, step.num_bytes), pieces);
      start = position + step.num_bytes;
    }
    position += step.num_bytes;
  }
  split_by_pattern(segment.substr(start), pieces);
}

void PreTokenizer::split_by_pattern(std::string_view segment,
                                    std::vector<std::string_view>& pieces) const {
  const struct Region {
    OnigRegion* get = onig_region_new();
    Region() = default;
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    ~Region() { onig_region_free(get, 1); }
  } region;
  const OnigUChar* begin = bytes(segment.data());
  const OnigUChar* end = begin + segment.size();
  std::size_t done = 0;
  while (done < segment.size()) {
    const int found =
        onig_search(pattern_->regex, begin, end, begin + done, end, region.get, ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH) {
      break;
    }
    if (found < 0) {
      throw Error(Fault::kData, fmt::format("a text of {} bytes could not be split into words: {}",
                                            segment.size(), onig_text(found)));
    }
    const auto match_begin = static_cast<std::size_t>(region.get->beg[0]);
    const auto match_end = static_cast<std::size_t>(region.get->end[0]);
    if (match_begin > done) {
      pieces.push_back(segment.substr(done, match_begin - done));
    }
    pieces.push_back(segment.substr(match_begin, match_end - match_begin));
    done = match_end;  // no alternative of the three patterns matches the empty string
  }
  if (done < segment.size()) {
    pieces.push_back(segment.substr(done));
  }
}

}  // namespace apo::text
