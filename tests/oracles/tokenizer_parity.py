"""Compares apo's tokenizer with Hugging Face's `tokenizers` on real and random text.

usage: tokenizer_parity.py CLI DATA_DIR [TOKENIZER.json ...]

CLI is the executable text_tokenizer_cli; DATA_DIR holds open/*.jsonl and tokenizers/*. Two small
vocabularies are trained here: one of the SmolLM2 kind that lacks some bytes, one of the GPT-2 kind
with NFC and added tokens of every flavour. Further files on the command line are compared too.
Exit code 77 (skipped) when DATA_DIR is absent; 1 on any difference.
"""

import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unicodedata

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import tokenizers  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers  # noqa: E402
from tokenizers import pre_tokenizers, processors, trainers  # noqa: E402

NUM_RANDOM = 10_000
SPELLINGS = ["<|eot_id|>", "<|begin_of_text|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>",
             "<|end_of_text|>", "<think>", "</think>", "<|im_end", "|>", "<|start_header_id|>",
             "<tool_call>", "<left>", "<right>", "<word>", "<caf\u00e9>", "<cafe\u0301>"]


def open_texts(folder):
    """Every prompt or message, chosen and rejected response of the data."""
    texts = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            prompt = row.get("prompt")
            if isinstance(prompt, list):
                texts += [m["content"] for m in prompt if isinstance(m.get("content"), str)]
            elif isinstance(prompt, str):
                texts.append(prompt)
            texts += [row[k] for k in ("chosen", "rejected") if isinstance(row.get(k), str)]
    return texts


def random_texts(count, seed, newer):
    """Strings of mixed scripts, white space, digits, controls and control-token spellings."""
    rng = random.Random(seed)

    def between(*ranges):
        low, high = rng.choice(ranges)
        return chr(rng.randint(low, high))

    def any_scalar():
        while True:
            code = rng.randrange(0x110000)
            if not 0xD800 <= code < 0xE000 and chr(code) not in newer:
                return chr(code)

    makers = [
        lambda: between((0x21, 0x7E)),
        lambda: "".join(between((0x61, 0x7A), (0x41, 0x5A)) for _ in range(rng.randint(1, 8))),
        lambda: rng.choice([" ", "  ", "    ", "\n", "\r\n", "\n\n", "\t", "\r", "\u00a0", "\u3000",
                            "\u180e", "\u2028", "\u0085", " \n "]),
        lambda: rng.choice(["'s", "'T", "'re", "'VE", "'m", "'LL", "'d", "\u2019s", "'\u017f"]),
        lambda: between((0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0x20000, 0x2A6DF)),
        lambda: between((0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x64B, 0x65F),
                        (0x1AB0, 0x1ACE), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x1100, 0x11FF)),
        lambda: between((0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x5D0, 0x5EA),
                        (0x620, 0x64A), (0x900, 0x97F), (0xE00, 0xE7F), (0x1E00, 0x1FFF)),
        lambda: between((0x1F300, 0x1FAFF), (0x2600, 0x27BF), (0x1F1E6, 0x1F1FF), (0xFE00, 0xFE0F),
                        (0x200B, 0x200F)),
        lambda: between((0x30, 0x39)) * rng.randint(1, 6),
        lambda: between((0x660, 0x669), (0x966, 0x96F), (0xFF10, 0xFF19), (0x2150, 0x218B),
                        (0xB2, 0xB3), (0xBC, 0xBE), (0x2460, 0x2473), (0x1D7CE, 0x1D7FF),
                        (0x12400, 0x12431)),
        lambda: between((0x0, 0x1F), (0x7F, 0x9F)),
        lambda: rng.choice(SPELLINGS),
        any_scalar,
    ]
    texts = []
    for _ in range(count):
        few = rng.sample(makers, rng.randint(1, 5))
        texts.append("".join(rng.choice(few)() for _ in range(rng.randint(0, 40))))
    return texts


def newer_characters():
    """Letters and numbers of the reference's Oniguruma that Unicode 14 has not assigned.

    The two programs may be linked with different versions of Oniguruma (6.9.8 knows Unicode 14);
    such characters are left out of the comparison.
    """
    unassigned = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and
                  unicodedata.category(chr(c)) == "Cn"]
    split = pre_tokenizers.Split(tokenizers.Regex(r"[^\p{L}\p{N}]+"), "removed")
    pieces = split.pre_tokenize_str("".join(unassigned))
    return {c for piece, _ in pieces for c in piece}


def every_character_texts(newer):
    """Every assigned character (of the large uniform blocks one in 64) in three surroundings."""
    def uniform(c):
        return 0x3400 <= c < 0xA000 or 0xAC00 <= c < 0xD7A4 or 0x13000 <= c < 0x19000 or c >= 0x20000

    chars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and
             not (uniform(c) and c % 64) and unicodedata.category(chr(c)) != "Co" and
             (c < 0x20000 or c % 64 == 0) and chr(c) not in newer and
             (unicodedata.category(chr(c)) != "Cn" or c % 64 == 0)]
    texts = []
    for start in range(0, len(chars), 32):
        some = chars[start:start + 32]
        texts.append("|".join("a" + c + "\u0323" for c in some))
        texts.append("|".join("o\u0301" + c + "\u05b0" for c in some))
        texts.append("\n".join("7 " + c + "'s" for c in some))
    return texts


def special(content, **flags):
    return AddedToken(content, normalized=False, special=True, **flags)


def train(texts, kind):
    """A small vocabulary of a kind for which no real one is at hand."""
    model = Tokenizer(models.BPE(unk_token=None))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [special(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    if kind == "gpt2-digits":
        model.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte_level])
        alphabet = alphabet[:200]  # the rest of the bytes is dropped when it does not occur
    else:
        model.normalizer = normalizers.NFC()
        model.pre_tokenizer = byte_level
        model.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    model.decoder = decoders.ByteLevel()
    ascii_texts = [t for t in texts if t.isascii()][:1500]
    model.train_from_iterator(
        ascii_texts, trainers.BpeTrainer(vocab_size=1500, special_tokens=names,
                                         initial_alphabet=alphabet, show_progress=False))
    if kind == "gpt2":
        model.add_special_tokens([special("<left>", lstrip=True), special("<right>", rstrip=True),
                                  special("<think>", lstrip=True, rstrip=True)])
        model.add_tokens([AddedToken("<word>", single_word=True, normalized=False),
                          AddedToken("<caf\u00e9>", normalized=True),
                          AddedToken("ing", normalized=True, single_word=True),
                          AddedToken("<|im_end", normalized=False)])
    return model


class Comparison:
    def __init__(self, cli):
        self.cli = cli
        self.num_differences = 0
        self.num_dropped = 0

    def ask(self, action, path, items):
        start = time.perf_counter()
        done = subprocess.run([self.cli, action, str(path)],
                              input="".join(json.dumps(i) + "\n" for i in items).encode(),
                              capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{action} {path}: exit {done.returncode}: {done.stderr.decode()}")
        answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
        assert len(answers) == len(items), (len(answers), len(items))
        dropped = re.search(rb"dropped (\d+)", done.stderr)
        self.num_dropped += int(dropped.group(1)) if dropped else 0
        return answers, time.perf_counter() - start

    def compare(self, name, items, ours, theirs):
        bad = [i for i in range(len(items)) if ours[i] != theirs[i]]
        for i in bad[:3]:
            print(f"  {name}: {json.dumps(items[i])[:300]}\n    apo {ours[i]!r:.300}\n"
                  f"    HF  {theirs[i]!r:.300}")
        self.num_differences += len(bad)
        return len(bad)

    def run(self, name, path, texts):
        reference = Tokenizer.from_file(str(path))

        def encode(add_special_tokens):
            return [e.ids for e in reference.encode_batch(texts,
                                                          add_special_tokens=add_special_tokens)]

        ids = encode(False)
        report = []
        ours, seconds = self.ask("encode", path, texts)
        report.append(f"parse {self.compare('parse', texts, ours, ids)} ({seconds:.1f} s)")
        ours, _ = self.ask("encode-special", path, texts)
        report.append(f"special {self.compare('special', texts, ours, encode(True))}")
        reference.encode_special_tokens = True
        ours, _ = self.ask("encode-text", path, texts)
        report.append(f"as text {self.compare('as text', texts, ours, encode(False))}")
        reference.encode_special_tokens = False

        rng = random.Random(11)
        top = reference.get_vocab_size()
        ids = ids + [[rng.randrange(top + 50) for _ in range(rng.randint(0, 30))]
                     for _ in range(2000)]
        for action, skip in (("decode", True), ("decode-all", False)):
            ours, _ = self.ask(action, path, ids)
            theirs = reference.decode_batch(ids, skip_special_tokens=skip)
            report.append(f"{action} {self.compare(action, ids, ours, theirs)}")
        print(f"{name}: {len(texts)} texts, {sum(map(len, ids))} ids; differences: "
              + ", ".join(report), flush=True)


def main():
    cli, data = sys.argv[1], pathlib.Path(sys.argv[2])
    if not (data / "open").is_dir():
        print(f"skipped: no test data in {data}")
        sys.exit(77)
    real = open_texts(data / "open")
    newer = newer_characters()
    texts = real + random_texts(NUM_RANDOM, 20240726, newer) + [" \u180e!", "hi  <|eot_id|>", ""]
    print(f"tokenizers {tokenizers.__version__}: {len(real)} texts of the data, {NUM_RANDOM} random; "
          f"{len(newer)} characters younger than Unicode 14 left out")
    comparison = Comparison(cli)
    with tempfile.TemporaryDirectory() as scratch:
        for packed in sorted(data.glob("tokenizers/*/tokenizer.json.gz")):
            path = pathlib.Path(scratch) / f"{packed.parent.name}.json"
            path.write_bytes(gzip.decompress(packed.read_bytes()))
            more = every_character_texts(newer) if "qwen" in packed.parent.name else []
            comparison.run(packed.parent.name, path, texts + more)
        for kind in ("gpt2-digits", "gpt2"):
            path = pathlib.Path(scratch) / f"{kind}.json"
            train(real, kind).save(str(path))
            comparison.num_dropped = 0
            comparison.run(kind, path, texts)
            print(f"  {comparison.num_dropped} byte symbols dropped")
            if (comparison.num_dropped > 0) != (kind == "gpt2-digits"):
                sys.exit(f"{kind}: only the first vocabulary lacks bytes")
        for path in sys.argv[3:]:
            comparison.run(path, path, texts)
    print(f"{comparison.num_differences} differences")
    sys.exit(1 if comparison.num_differences else 0)


if __name__ == "__main__":
    main()
