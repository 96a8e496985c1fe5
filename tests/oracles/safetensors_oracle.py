"""Our safetensors reader and writer against the reference library, both directions.

usage: safetensors_oracle.py MODEL_FILES_PROBE
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file


def main():
    probe = sys.argv[1]
    torch.manual_seed(1)
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64,
              torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64,
              torch.float8_e4m3fn, torch.float8_e5m2]
    shapes = [(), (0,), (3,), (2, 5), (4, 1, 3), (7, 0, 2)]
    tensors = {}
    for i, dtype in enumerate(dtypes):
        for k, shape in enumerate(shapes):
            name = f"layer.{(i * 7 + k * 3) % 11}.{dtype}.{k}"
            tensors[name] = (torch.randn(shape, dtype=torch.float32) * 10).to(dtype)
    tensors['name "quoted" \\ é\u20ac\U0001f600'] = torch.ones(2)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for metadata in (None, {"format": "pt"}):
            for subset in (tensors, {}, {"a": torch.arange(5)}):
                reference, ours = folder / "reference.safetensors", folder / "ours.safetensors"
                save_file(subset, reference, metadata=metadata)
                subprocess.run([probe, "copy", reference, ours], check=True)
                assert reference.read_bytes() == ours.read_bytes(), "bytes differ"
        loaded = load_file(ours.parent / "ours.safetensors")
        assert loaded["a"].equal(torch.arange(5))

        floats = {name: t for name, t in tensors.items()
                  if t.dtype in (torch.float32, torch.float16, torch.bfloat16)}
        # every finite half-precision value
        bits = torch.arange(-32768, 32768, dtype=torch.int16)
        for dtype in (torch.float16, torch.bfloat16):
            values = bits.view(dtype)
            floats[f"all.{dtype}"] = values[torch.isfinite(values)].clone()
        save_file(floats, folder / "floats.safetensors")
        subprocess.run(
            [probe, "widen", folder / "floats.safetensors", folder / "wide.safetensors"],
            check=True,
        )
        with safe_open(folder / "wide.safetensors", "pt") as wide:
            assert sorted(wide.keys()) == sorted(floats)
            assert wide.metadata() == {"format": "pt"}
            for name, value in floats.items():
                found, expected = wide.get_tensor(name), value.float()
                assert found.shape == expected.shape and found.dtype == torch.float32
                assert found.view(torch.int32).equal(expected.view(torch.int32)), name
    print(f"{len(tensors)} tensors byte-identical, {len(floats)} widened exactly")


if __name__ == "__main__":
    main()
