#include "apo/methods/options.hpp"

namespace apo::methods {

void declare(FieldTable& table, FspoOptions& options) {
  table.real("fspo.beta", options.beta, {0.0, 100.0, true}, "1/nat",
             "Temperature of the IPO loss: margins tend to 1 / (2 beta)");
  table.integer("fspo.epochs", options.epochs, {1, 100000}, "epochs",
                "Passes of a new client over its adapt.shots pairs");
  table.integer("fspo.batch_size", options.batch_size, {1, 100000}, "pairs",
                "Pairs per step, spread over the objectives");
  table.choice("fspo.optimizer", options.optimizer, {"rmsprop", "adamw"},
               "Optimiser of the client; its learning rate is adapt.learning_rate");
  table.integer("fspo.warmup_steps", options.warmup_steps, {0, 1000000}, "steps",
                "Steps over which the learning rate rises linearly");
  table.real("fspo.gradient_clip", options.gradient_clip, {0.0, 1e9, false}, "",
             "Largest norm of the gradient; 0 does not clip");
}

void declare(FieldTable& table, DittoOptions& options) {
  table.integer("ditto.sft_steps", options.sft_steps, {0, 100000}, "steps",
                "Largest number of fine-tuning steps on the chosen responses");
  table.integer("ditto.sft_batch_size", options.sft_batch_size, {1, 100000}, "demonstrations",
                "Chosen responses per fine-tuning step");
  table.real("ditto.sft_learning_rate", options.sft_learning_rate, {0.0, 1e3, true}, "",
             "Largest learning rate of the fine-tuning");
  table.real("ditto.sft_warmup", options.sft_warmup, {0.0, 1.0, false}, "",
             "Share of ditto.sft_steps over which the learning rate rises, before a cosine to 0");
  table.real("ditto.sft_stop_loss", options.sft_stop_loss, {0.0, 1e3, false}, "nat",
             "Fine-tuning ends with the first batch whose mean token loss is below");
  table.integer("ditto.steps", options.steps, {0, 100000}, "steps",
                "DPO steps against the policy's own samples");
  table.integer("ditto.batch_size", options.batch_size, {1, 100000}, "demonstrations",
                "Chosen responses per DPO step; it compares three times as many pairs");
  table.real("ditto.learning_rate", options.learning_rate, {0.0, 1e3, true}, "",
             "Learning rate of the DPO steps");
  table.real("ditto.warmup", options.warmup, {0.0, 1.0, false}, "",
             "Share of ditto.steps over which the learning rate rises; constant afterwards");
  table.real("ditto.beta", options.beta, {0.0, 100.0, true}, "1/nat",
             "Temperature of the DPO loss; its reference is the fine-tuned policy");
  table.integer("ditto.resample_every", options.resample_every, {1, 100000}, "steps",
                "DPO steps between two draws of the policy's samples");
  table.integer("ditto.samples_per_prompt", options.samples_per_prompt, {1, 1000}, "responses",
                "Responses per prompt and draw; the published code takes 10");
  table.integer("ditto.max_new_tokens", options.max_new_tokens, {1, 100000}, "tokens",
                "Longest sampled response");
  table.real("ditto.temperature", options.temperature, {0.0, 100.0, false}, "",
             "Sampling temperature; 0 is greedy");
  table.real("ditto.gradient_clip", options.gradient_clip, {0.0, 1e9, false}, "",
             "Largest norm of the gradient; 0 does not clip");
}

}  // namespace apo::methods
