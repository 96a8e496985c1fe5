"""Logits of base model and adapter, ours against PEFT, for adapters written by either side.

usage: peft_parity.py CAUSAL_LM_PROBE
"""

import pathlib
import sys
import subprocess
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from logits_parity import (TOLERANCE, cases, largest_difference, our_logits, random_ids,
                           random_model, their_logits)

TARGETS = [["q_proj", "v_proj"],
           ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
           ["down_proj"], ["k_proj", "o_proj", "up_proj"], ["v_proj", "gate_proj"], ["q_proj"]]


def main():
    probe = sys.argv[1]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        for number, ((what, config), targets) in enumerate(zip(cases(), TARGETS)):
            folder = pathlib.Path(name) / str(number)
            base_dir, theirs_dir, ours_dir = folder / "model", folder / "theirs", folder / "ours"
            base = random_model(config, number)
            base.save_pretrained(base_dir)
            ids, rows = random_ids(folder, config.vocab_size)
            base_logits = their_logits(base, rows)

            peft = get_peft_model(base, LoraConfig(r=3, lora_alpha=7, lora_dropout=0.2,
                                                   target_modules=targets, task_type="CAUSAL_LM"))
            with torch.no_grad():
                for parameter, value in peft.named_parameters():
                    if "lora_" in parameter:
                        value.normal_(0.0, 0.2)
            peft.eval().save_pretrained(theirs_dir)
            theirs = their_logits(peft, rows)
            moved = max((a - b).abs().max().item() for a, b in zip(theirs, base_logits))
            imported = largest_difference(
                our_logits(probe, base_dir, ids, folder, adapter=theirs_dir), theirs)

            subprocess.run([probe, "random-adapter", base_dir, ours_dir], check=True)
            loaded = PeftModel.from_pretrained(
                AutoModelForCausalLM.from_pretrained(base_dir, dtype=torch.float32), ours_dir).eval()
            exported = largest_difference(
                our_logits(probe, base_dir, ids, folder, adapter=ours_dir), their_logits(loaded, rows))
            ok = imported <= TOLERANCE and exported <= TOLERANCE and moved > 0.1
            failed |= not ok
            print(f"{'ok  ' if ok else 'FAIL'} {what}: theirs here {imported:.1e}, ours there "
                  f"{exported:.1e}; the adapter moves logits by {moved:.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
