#include "row_shapes.hpp"

#include <array>
#include <initializer_list>

#include "dialogue.hpp"

namespace apo::data {
namespace {

struct KnownShape {
  const char* name;
  std::initializer_list<const char*> keys;
};

// In this order: the first whose keys are all there. Shape numbers as in the spec.
const std::array<KnownShape, 11> kRefused = {{
    {"OpenAssistant message trees (shape 9)", {"message_tree_id"}},
    {"QA-Feedback (shape 9)", {"question", "prediction 1", "preference"}},
    {"PandaLM annotations (shape 9)", {"response1", "response2", "instruction"}},
    {"PKU-SafeRLHF (shape 7)", {"response_0", "response_1"}},
    {"UltraFeedback ratings (shape 6)", {"completions"}},
    {"HelpSteer ratings (shape 6)", {"response", "helpfulness"}},
    {"LLaMA-Factory sharegpt (shape 5)", {"conversations"}},
    {"LLaMA-Factory alpaca (shape 5)", {"instruction", "chosen", "rejected"}},
    {"instructions without preferences (alpaca)", {"instruction", "output"}},
    {"conversations without preferences (messages)", {"messages"}},
    {"unpaired labels (KTO)", {"completion", "label"}},
}};

}  // namespace

ShapeFinding find_shape(const nlohmann::json& row) {
  ShapeFinding finding;
  for (const KnownShape& known : kRefused) {
    bool all = true;
    for (const char* key : known.keys) {
      all = all && row.contains(key);
    }
    if (all) {
      finding.refused = known.name;
      return finding;
    }
  }
  if (!row.contains("chosen") || !row.contains("rejected")) {
    return finding;
  }
  const auto& chosen = row.at("chosen");
  const bool has_prompt = row.contains("prompt") && !row.at("prompt").is_null();
  if (has_prompt || chosen.is_array() || row.at("rejected").is_array()) {
    finding.shape = RowShape::kNeutral;
  } else if (chosen.is_string() && is_dialogue(chosen.get_ref<const std::string&>())) {
    finding.shape = RowShape::kHhRlhf;
  }
  return finding;
}

}  // namespace apo::data
