"""analysis/convert_smollm2.py on a small GGUF file that is made here.

The file holds a random Llama as llama.cpp stores one: rows of q and k permuted, Q4_1, Q8_0 and F32
tensors. transformers must compute the same logits from the converted folder as from the weights
that went in (after quantisation).

usage: convert_smollm2_oracle.py PROJECT_DIR
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

Q4_1, Q8_0, F32 = (gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0,
                   gguf.GGMLQuantizationType.F32)
HEADS, KV_HEADS, HEAD_DIM, LAYERS = 4, 2, 16, 2
NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def byte_alphabet():
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in kept]
    return [chr(b) for b in kept] + [chr(256 + i) for i in range(len(others))]


SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["a b", "Ġ ab", "ab c"]
TOKENS = SPECIAL + byte_alphabet() + [merge.replace(" ", "") for merge in MERGES]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def check_block_formats():
    """The published vectors: x_i = sin(0.3 i)."""
    for kind, text, expected in (
        (Q4_1, "4130f8bb071a2c3d5e8fafceddfbf9f6e4c2b180",
         {0: -0.06555176, 1: 0.33325195, 31: 0.06738281}),
        (Q8_0, "072000264864777f7c6e563612ecc8a99184818a9ebadc02284a65777f7b6d543410",
         {1: 0.29890442}),
    ):
        values = gguf.quants.dequantize(np.frombuffer(bytes.fromhex(text), np.uint8), kind)
        for i, value in expected.items():
            assert abs(values.ravel()[i] - value) < 1e-7, (kind, i)


def permute(weight, heads):
    rows, columns = weight.shape
    return (weight.reshape(heads, 2, rows // heads // 2, columns)
            .swapaxes(1, 2).reshape(rows, columns))


def write_gguf(path, model):
    """Writes the file and sets the model's weights to what the file's blocks decode to."""
    writer = gguf.GGUFWriter(path, "llama")
    config = model.config
    writer.add_block_count(LAYERS)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)

    def add(name, weight, kind):
        data = weight.detach().numpy().copy()
        if kind == F32:
            writer.add_tensor(name, data)
            return
        decoded = gguf.quants.dequantize(gguf.quants.quantize(data, kind), kind)
        with torch.no_grad():
            weight.copy_(torch.from_numpy(decoded))
        heads = {"q": HEADS, "k": KV_HEADS}.get(name.split(".")[2][5:], 0) if "attn_" in name else 0
        stored = permute(data, heads) if heads else data
        writer.add_tensor(name, gguf.quants.quantize(stored, kind), raw_dtype=kind)

    add("token_embd.weight", model.model.embed_tokens.weight, Q8_0)
    add("output_norm.weight", model.model.norm.weight, F32)
    for i, layer in enumerate(model.model.layers):
        for theirs, name in NAMES.items():
            weight = layer.get_submodule(theirs).weight
            add(f"blk.{i}.{name}.weight", weight, F32 if weight.dim() == 1 else Q4_1)
    writer.add_tensor("rope_freqs.weight", np.ones(HEAD_DIM // 2, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    script = pathlib.Path(sys.argv[1]) / "analysis" / "convert_smollm2.py"
    check_block_formats()
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(
        LlamaConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS,
                    num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
                    vocab_size=len(TOKENS), max_position_embeddings=128, rope_theta=100000.0,
                    rms_norm_eps=1e-5, tie_word_embeddings=True, initializer_range=0.3)).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" in name:
                value.uniform_(0.5, 1.5)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_gguf(folder / "tiny.gguf", model)
        with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w") as wheel:
            wheel.write(folder / "tiny.gguf", "tiny/tiny.gguf")
        for source in ("tiny.gguf", "tiny-1-py3-none-any.whl"):  # the second replaces the first
            subprocess.run([sys.executable, script, folder / source, folder / "model"], check=True)
        assert sorted(p.name for p in folder.iterdir()) == [
            "model", "tiny-1-py3-none-any.whl", "tiny.gguf"]

        again, info = AutoModelForCausalLM.from_pretrained(
            folder / "model", output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        ids = torch.randint(0, len(TOKENS), (2, 60))
        with torch.no_grad():
            assert torch.equal(model(ids).logits, again.eval()(ids).logits)
        assert again.config.eos_token_id == 2 and again.config.tie_word_embeddings

        tokenizer = AutoTokenizer.from_pretrained(folder / "model")
        text = "12 abc é<|im_end|>"
        tokens = ["1", "2", "Ġab", "c", "Ġ", "Ã", "©", "<|im_end|>"]
        assert tokenizer(text).input_ids == [TOKENS.index(token) for token in tokens]
        assert tokenizer.decode(tokenizer(text).input_ids) == text
        assert tokenizer.chat_template == TEMPLATE

        # another architecture is refused
        (folder / "other.gguf").write_bytes(
            (folder / "tiny.gguf").read_bytes().replace(b"llama", b"lamma"))
        found = subprocess.run([sys.executable, script, folder / "other.gguf", folder / "x"],
                               capture_output=True, text=True)
        assert found.returncode != 0 and "expected 'llama'" in found.stderr, found
        assert not (folder / "x").exists()
    print("converted folder: equal logits and token ids")


if __name__ == "__main__":
    main()
