"""Compares apo's chat templates with Jinja's rendering and Hugging Face's ids.

usage: chat_template_parity.py CLI DATA_DIR [FAMILY=TEMPLATE_FILE ...]

The templates are those of DATA_DIR/tokenizers/* and SmolLM2's (on a small vocabulary trained here);
further template files can be named, they are rendered with the Llama-3 or Qwen vocabulary.
Exit code 77 (skipped) when DATA_DIR is absent; 1 on any difference.
"""

import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from transformers import PreTrainedTokenizerFast  # noqa: E402

import tokenizer_parity as parity  # noqa: E402

DATE = "26 Jul 2024"
SMOLLM2 = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
           "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
           "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
           "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
           "{{ '<|im_start|>assistant\n' }}{% endif %}")
CONTROL = ("<|", "<think>", "<tool")


def conversations(texts, count):
    """Random shapes (with and without system, several turns), real and odd contents."""
    rng = random.Random(5)
    odd = ["", " ", "\n\nx\n", "\u00a0both sides\u3000", "\x1c\x1ftrim\x85", "a\u200b ", "  I am fine.\n",
           "e\u0301 \u212b", "tab\t", "\u180e!"]
    result = []
    for _ in range(count):
        roles = (["system"] if rng.random() < 0.4 else []) + ["user"]
        for _ in range(rng.randint(0, 2)):
            roles += ["assistant", "user"]
        result.append([[role, rng.choice(odd) if rng.random() < 0.4 else rng.choice(texts)]
                       for role in roles])
    return result


def compare(cli, name, folder, family, template, bos, chats):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"),
                                        bos_token=bos)
    done = subprocess.run([cli, "chat", str(folder), family, DATE], capture_output=True,
                          input="".join(json.dumps(c) + "\n" for c in chats).encode(), check=False)
    if done.returncode != 0:
        sys.exit(f"{name}: exit {done.returncode}: {done.stderr.decode()}")
    bad = 0
    for chat, line in zip(chats, done.stdout.decode().split("\n")[:-1], strict=True):
        ours = json.loads(line)
        messages = [{"role": role, "content": content} for role, content in chat]
        text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False,
                                             add_generation_prompt=True, date_string=DATE)
        wrong = ours["text"] != text
        if not any(c in content for _, content in chat for c in CONTROL):
            wrong |= ours["ids"] != tokenizer.encode(text, add_special_tokens=False)
        if wrong:
            bad += 1
            if bad <= 3:
                print(f"  {name}: {json.dumps(chat)[:300]}\n    apo {ours['text']!r:.400}\n"
                      f"    HF  {text!r:.400}")
    print(f"{name} ({family}): {len(chats)} conversations, {bad} differences", flush=True)
    return bad


def main():
    cli, data = sys.argv[1], pathlib.Path(sys.argv[2])
    if not (data / "open").is_dir():
        print(f"skipped: no test data in {data}")
        sys.exit(77)
    texts = parity.open_texts(data / "open")
    chats = conversations([t for t in texts if len(t) < 1500], 400)
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        folders = {}
        for name in ("llama3", "llama3_1", "qwen3"):
            folder = folders[name] = pathlib.Path(scratch) / name
            folder.mkdir()
            source = data / "tokenizers" / name
            config = (source / "tokenizer_config.json").read_text(encoding="utf-8")
            (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
            (folder / "tokenizer.json").write_bytes(
                gzip.decompress((source / "tokenizer.json.gz").read_bytes()))
            if name != "qwen3":
                bad += compare(cli, name, folder, "auto", json.loads(config)["chat_template"],
                               "<|begin_of_text|>", chats)
        smollm2 = pathlib.Path(scratch) / "smollm2"
        smollm2.mkdir()
        parity.train(texts, "gpt2-digits").save(str(smollm2 / "tokenizer.json"))
        (smollm2 / "tokenizer_config.json").write_text(json.dumps({"chat_template": SMOLLM2}))
        bad += compare(cli, "smollm2", smollm2, "auto", SMOLLM2, None, chats)
        for extra in sys.argv[3:]:
            family, _, path = extra.partition("=")
            template = pathlib.Path(path).read_text(encoding="utf-8")
            folder = folders["qwen3" if family == "qwen2" else "llama3"]
            (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
            bad += compare(cli, path, folder, "auto", template, "<|begin_of_text|>", chats)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
