#pragma once

/// @file
/// Dialogues as one text with "\n\nHuman:" and "\n\nAssistant:" before the turns (hh-rlhf).

#include <string_view>
#include <vector>

#include "apo/text/chat_template.hpp"

namespace apo::data {

/// Does the text begin with a human turn's marker? Without the marker's newlines it only counts
/// when an assistant turn follows.
[[nodiscard]] bool is_dialogue(std::string_view text);

/// All turns, contents without surrounding space. A turn that is only announced ("\n\nAssistant:"
/// at the very end) is returned with empty content.
[[nodiscard]] std::vector<text::Turn> read_dialogue(std::string_view text);

/// Without space, tab, carriage return and newline on both sides.
[[nodiscard]] std::string_view trimmed(std::string_view text);

}  // namespace apo::data
