"""What the package `gguf` of PyPI unpacks from blocks of the rarer kinds: the truth for our use of candle's routines. The blocks are
bytes of a fixed generator with small scales. Run: pip install gguf==0.19.0, then python packed_kinds.py > packed_kinds.json
"""

import json

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Kind, and where its scales of 16 bits stand.
KINDS = {"Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}

random = np.random.default_rng(7)
found = {}
for name, scales in KINDS.items():
    kind = GGMLQuantizationType[name]
    values, size = GGML_QUANT_SIZES[kind]
    blocks = max(1, 64 // values)
    data = random.integers(0, 256, (blocks, size), dtype=np.uint8)
    for place in scales:
        data[:, place : place + 2] = random.uniform(-0.05, 0.05, (blocks, 1)).astype(np.float16).view(np.uint8)
    unpacked = dequantize(data.reshape(-1), kind).reshape(-1)
    found[name.lower()] = {"bytes": data.tobytes().hex(), "values": [float(value) for value in unpacked]}
print("{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()) + "\n}")
