"""Adapters saved by us load in PEFT, and PEFT's load here, tensor by tensor.

usage: adapter_oracle.py MODEL_FILES_PROBE
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=64, max_position_embeddings=128)
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def lora_tensors(model):
    return {name: value.detach() for name, value in model.named_parameters() if "lora_" in name}


def randomise(model):
    with torch.no_grad():
        for value in lora_tensors(model).values():
            value.normal_()


def check_ours_in_peft(probe, base_dir, folder):
    ours = folder / "ours"
    subprocess.run([probe, "make-adapter", base_dir, ours], check=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # PEFT only warns about missing or unknown keys
        model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base_dir), ours)
    saved = load_file(ours / "adapter_model.safetensors")
    tensors = lora_tensors(model)
    assert len(saved) == len(tensors) == 2 * 7 * 2
    for name, value in tensors.items():
        assert value.equal(saved[name.replace(".default.weight", ".weight")]), name
        assert value.abs().sum() > 0, name
    config = model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.lora_dropout) == (8, 16, 0.05)
    assert set(config.target_modules) == set(ALL)


def check_peft_here(probe, base_dir, folder, targets, rank):
    base = AutoModelForCausalLM.from_pretrained(base_dir)
    model = get_peft_model(base, LoraConfig(r=rank, lora_alpha=12, lora_dropout=0.1,
                                            target_modules=targets, task_type="CAUSAL_LM"))
    randomise(model)
    theirs, ours = folder / "theirs", folder / "again"
    model.save_pretrained(theirs)
    subprocess.run([probe, "copy-adapter", base_dir, theirs, ours], check=True)
    a = load_file(theirs / "adapter_model.safetensors")
    b = load_file(ours / "adapter_model.safetensors")
    assert a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)

    # the order of the flat vector: layers, projections, A before B
    used = json.loads((theirs / "adapter_config.json").read_text())["target_modules"]
    short = ALL if isinstance(used, str) else {name.split(".")[-1] for name in used}
    used = [name for name in ALL if name in short]
    flat = load_file(ours / "flat.safetensors")["flat"]
    parts = []
    for layer in range(2):
        for name in used:
            block = "mlp" if name in ALL[4:] else "self_attn"
            key = f"base_model.model.model.layers.{layer}.{block}.{name}.lora_"
            parts += [a[key + "A.weight"].flatten(), a[key + "B.weight"].flatten()]
    assert flat.equal(torch.cat(parts))
    again = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base_dir), ours)
    ids = torch.randint(0, 64, (1, 20))
    with torch.no_grad():
        assert torch.equal(model.eval()(ids).logits, again.eval()(ids).logits)


def check_refusals(probe, base_dir, folder):
    for k, change in enumerate((dict(use_dora=True), dict(use_rslora=True),
                                dict(modules_to_save=["lm_head"]), dict(bias="lora_only"),
                                dict(rank_pattern={"q_proj": 4}))):
        base = AutoModelForCausalLM.from_pretrained(base_dir)
        model = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], **change))
        theirs = folder / f"refused-{k}"
        model.save_pretrained(theirs)
        found = subprocess.run([probe, "copy-adapter", base_dir, theirs, folder / "x"],
                               capture_output=True, text=True)
        assert found.returncode == 65 and next(iter(change)) in found.stderr, (change, found)


def main():
    probe = sys.argv[1]
    torch.manual_seed(1)
    for config in (LlamaConfig(**SIZES, head_dim=6), Qwen2Config(**SIZES)):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            base_dir = folder / "base"
            AutoModelForCausalLM.from_config(config).save_pretrained(base_dir)
            check_ours_in_peft(probe, base_dir, folder)
            for targets, rank in ((ALL, 4), (["q_proj", "v_proj"], 8), ("all-linear", 3),
                                  (r".*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
                                   2)):
                check_peft_here(probe, base_dir, folder, targets, rank)
            check_refusals(probe, base_dir, folder)
    print("PEFT loads our adapters, we load PEFT's: all tensors equal")


if __name__ == "__main__":
    main()
