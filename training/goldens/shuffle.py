"""Makes shuffle.json: what CPython's random.seed and random.shuffle make of range(n).

    python shuffle.py

A case: seed, n, and the whole order, or for long ones SHA-256 over the order (little-endian u32) and its first and last eight.
"""

import hashlib
import json
import pathlib
import random
import struct

HERE = pathlib.Path(__file__).parent
SEEDS = [0, 1, 42, 43, 1234, 2**31, 2**32 - 1, 2**32, 2**32 + 42, 2**63 + 5, 2**64 - 1]
SHORT, LONG = [0, 1, 2, 3, 4, 10, 33], [1367, 18698, 43760]

cases = []
for seed in SEEDS:
    for n in SHORT + (LONG if seed in (42, 43, 2**64 - 1) else [1000]):
        random.seed(seed)
        order = list(range(n))
        random.shuffle(order)
        case = {"seed": seed, "n": n}
        if n in SHORT:
            case["order"] = order
        else:
            case["sha256"] = hashlib.sha256(struct.pack(f"<{n}I", *order)).hexdigest()
            case["first"], case["last"] = order[:8], order[-8:]
        cases.append(case)
(HERE / "shuffle.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
