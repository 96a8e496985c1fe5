"""config.json written by transformers is read by us, and ours by transformers.

usage: model_config_oracle.py MODEL_FILES_PROBE
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, Qwen2Config

SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=64, max_position_embeddings=128)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)


def configurations():
    yield LlamaConfig(**SIZES, tie_word_embeddings=True, eos_token_id=[1, 2], rms_norm_eps=1e-5)
    yield LlamaConfig(**SIZES, head_dim=6, attention_bias=True, mlp_bias=True)
    yield LlamaConfig(**SIZES, rope_theta=500000.0, rope_scaling=LLAMA3, pad_token_id=3)
    yield Qwen2Config(**SIZES, tie_word_embeddings=True, rope_theta=1000000.0)
    yield Qwen2Config(**SIZES)


def main():
    probe = sys.argv[1]
    torch.manual_seed(1)
    ids = torch.randint(0, 64, (2, 40))
    count = 0
    for config in configurations():
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours = pathlib.Path(folder) / "theirs", pathlib.Path(folder) / "ours"
            ours.mkdir()
            model = AutoModelForCausalLM.from_config(config).eval()
            model.save_pretrained(theirs)
            subprocess.run([probe, "check", theirs], check=True)  # every tensor, every shape
            subprocess.run([probe, "config", theirs, ours], check=True)
            (ours / "model.safetensors").symlink_to(theirs / "model.safetensors")
            again, info = AutoModelForCausalLM.from_pretrained(ours, output_loading_info=True)
            assert not info["missing_keys"] and not info["unexpected_keys"], info
            with torch.no_grad():  # the same forward pass: rope, eps, biases, tying survived
                assert torch.equal(model(ids).logits, again.eval()(ids).logits), config
            for key in ("eos_token_id", "bos_token_id", "pad_token_id", "tie_word_embeddings"):
                assert getattr(AutoConfig.from_pretrained(ours), key) == getattr(config, key), key

            # a checkpoint that does not fit its config.json is refused
            wrong = json.loads((theirs / "config.json").read_text())
            wrong["intermediate_size"] = 47
            (theirs / "config.json").write_text(json.dumps(wrong))
            found = subprocess.run([probe, "check", theirs], capture_output=True, text=True)
            assert found.returncode == 65 and "mlp.up_proj.weight has shape" in found.stderr, found
            count += 1
    print(f"{count} configurations, equal logits")


if __name__ == "__main__":
    main()
