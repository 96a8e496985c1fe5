"""Logits of randomly initialised checkpoints, ours against transformers.

usage: logits_parity.py CAUSAL_LM_PROBE
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

TOLERANCE = 1e-4
BASE = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
            initializer_range=0.15)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)


def cases():
    yield "llama tied, grouped heads", LlamaConfig(**BASE, tie_word_embeddings=True)
    yield "llama untied, as many key heads", LlamaConfig(
        **{**BASE, "num_key_value_heads": 4}, tie_word_embeddings=False)
    yield "llama head_dim 20, llama3 scaling", LlamaConfig(
        **BASE, head_dim=20, tie_word_embeddings=True,
        rope_parameters=dict(LLAMA3, rope_theta=500000.0))
    yield "llama head_dim 8, all biases", LlamaConfig(
        **BASE, head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
        rms_norm_eps=1e-5)
    yield "qwen2 tied, one key head", Qwen2Config(
        **{**BASE, "num_key_value_heads": 1}, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=1e6))
    yield "qwen2 untied", Qwen2Config(**BASE, tie_word_embeddings=False)


def random_model(config, seed):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32,
                                             attn_implementation="eager").eval()
    with torch.no_grad():  # norms and biases start at one and zero, which would hide mistakes
        for name, value in model.named_parameters():
            if name.endswith("bias"):
                value.normal_(0.0, 0.3)
            elif "norm" in name:
                value.normal_(1.0, 0.2)
    return model


def random_ids(folder, vocabulary):
    torch.manual_seed(11)
    rows = [torch.randint(vocabulary, (length,)).tolist() for length in (150, 1, 37, 64)]
    path = folder / "ids.txt"
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return path, rows


def our_logits(probe, model_dir, ids, folder, dtype="float32", adapter=None):
    out = folder / "logits.safetensors"
    subprocess.run([probe, "logits", model_dir, dtype, ids, out] + ([adapter] if adapter else []),
                   check=True)
    return load_file(out)["logits"]


def their_logits(model, rows):
    with torch.no_grad():
        return [model(torch.tensor([row])).logits[0].float() for row in rows]


def largest_difference(ours, theirs):
    return max((ours[i, : len(row)] - row).abs().max().item() for i, row in enumerate(theirs))


def main():
    probe = sys.argv[1]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        for number, (what, config) in enumerate(cases()):
            folder = pathlib.Path(name) / str(number)
            model = random_model(config, number)
            shards = "50KB" if number % 2 else "5GB"
            model.save_pretrained(folder / "model", max_shard_size=shards)
            ids, rows = random_ids(folder, config.vocab_size)
            theirs = their_logits(model, rows)
            spread = torch.cat(theirs).std().item()
            assert spread > 0.3, f"{what}: logits too small to compare: {spread}"

            difference = largest_difference(our_logits(probe, folder / "model", ids, folder), theirs)
            narrow = our_logits(probe, folder / "model", ids, folder, "bfloat16")
            bf16 = their_logits(model.to(torch.bfloat16), rows)
            of_ours = torch.cat([narrow[i, : len(t)] - t for i, t in enumerate(theirs)]).std().item()
            of_theirs = torch.cat([b - t for b, t in zip(bf16, theirs)]).std().item()
            ok = difference <= TOLERANCE and of_ours <= 1.5 * of_theirs
            failed |= not ok
            print(f"{'ok  ' if ok else 'FAIL'} {what}: max difference {difference:.1e} "
                  f"(spread {spread:.2f}); bfloat16 error {of_ours:.4f}, transformers' {of_theirs:.4f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
