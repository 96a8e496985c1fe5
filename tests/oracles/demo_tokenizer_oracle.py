"""Token ids of the demo's tokenizer: ours (the probe's output) against Hugging Face tokenizers.

usage: demo_tokenizer_oracle.py PROBE MODEL_DIR
"""

import json
import re
import subprocess
import sys

from tokenizers import Tokenizer


def main():
    probe, model_dir = sys.argv[1:]
    reference = Tokenizer.from_file(f"{model_dir}/tokenizer.json")
    output = subprocess.run([probe, model_dir], check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in output.splitlines()]
    assert len(rows) > 9000, len(rows)
    differences = 0
    for row in rows:
        text, ids = row["text"], row["ids"]
        expected = reference.encode(text, add_special_tokens=False).ids
        if ids != expected:
            differences += 1
            print("DIFFERENT", repr(text), ids, expected)
        if row["grammar"]:
            pieces = re.findall(r"[A-Za-z]+|[^A-Za-z ]", text)
            assert len(expected) == len(pieces), (text, expected)
        assert reference.decode(expected, skip_special_tokens=False) == text, text
    print(f"{len(rows)} texts, {differences} differences, vocabulary {reference.get_vocab_size()}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
