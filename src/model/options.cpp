#include "apo/model/options.hpp"

namespace apo::model {

void declare(FieldTable& table, ModelOptions& options) {
  table.text("model.path", options.path,
             "Hugging Face folder with config.json, *.safetensors and tokenizer.json", true);
  table.choice("model.dtype", options.dtype, {"float32", "bfloat16"},
               "Element type of the frozen base model");
  table.choice("model.quantization", options.quantization, {"none"},
               "Quantisation of the frozen base model");
}

void declare(FieldTable& table, LoraOptions& options) {
  table.integer("lora.rank", options.rank, {1, 1024}, "", "Rank r of every adapter");
  table.real("lora.alpha", options.alpha, {0.0, 1e6, true}, "",
             "Adapter scale; the product is multiplied by alpha / rank");
  table.real("lora.dropout", options.dropout, {0.0, 0.99, false}, "probability",
             "Dropout on the adapter's input while training");
  table.list("lora.targets", options.targets, "Projections that get an adapter", false,
             {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"});
}

}  // namespace apo::model
