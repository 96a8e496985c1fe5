#include "apo/data/options.hpp"

namespace apo::data {

void declare(FieldTable& table, DataOptions& options) {
  table.list("data.files", options.files, "Preference files (.json, .jsonl, also .gz)", true);
  table.choice("data.format", options.format,
               {"auto", "pairs", "hh_rlhf", "conversational", "fedllm"},
               "Shape of the rows; auto looks at the first row of each file");
  table.list("data.objectives", options.objectives,
             "Objectives in use, in this order; rows of other objectives are counted and left out",
             true);
  table.text("data.clients", options.clients,
             "Who owns a pair: field (the row says), even:N, or dirichlet:N:ALPHA");
  table.text("data.preferences", options.preferences,
             "Preference vectors: FILE (CSV or JSON lines), dirichlet:ALPHA, "
             "dirichlet:A1:A2:..., corners:STRONG:WEAK, or grid:K");
  table.integer("data.max_length", options.max_length, {8, 131072}, "tokens",
                "Longest prompt plus response");
  table.integer("data.max_prompt_length", options.max_prompt_length, {1, 131072}, "tokens",
                "With truncation = keep_end, tokens kept of a prompt that is too long");
  table.choice("data.truncation", options.truncation, {"keep_end", "keep_start"},
               "keep_end keeps the prompt's last tokens and the response's first; keep_start cuts "
               "the whole at max_length and drops pairs without a response token");
  table.choice("data.on_bad_row", options.on_bad_row, {"error", "skip"},
               "What a malformed row does; skipped rows are counted by reason");
  table.choice("data.duplicates", options.duplicates, {"keep", "drop"},
               "Exact duplicates: same client, objective, prompt and responses");
  table.real(
      "data.test_fraction", options.test_fraction, {0.0, 0.9, false}, "",
      "Share of the clients that only appear after training; ignored when rows carry 'split'");
  table.integer("data.pairs_per_client", options.pairs_per_client, {0, 1000000}, "pairs",
                "At most so many pairs per client, drawn evenly over its objectives; 0 keeps all");
  table.integer("data.adapt_pairs", options.adapt_pairs, {1, 100000}, "pairs",
                "Pairs of a test client used to adapt; the rest evaluates it");
  table.text("data.chat_template", options.chat_template,
             "auto (by the checkpoint's chat_template), llama3, llama3_1, qwen2, smollm2 or plain");
  table.text("data.template_date", options.template_date,
             "Date that Llama 3.1 and later templates show, frozen so that runs can be repeated");
}

}  // namespace apo::data
