"""sentence-transformers' speed on a folder: python sentence_transformers.py MODEL THREADS.

Prints one JSON object: texts a second of each row of `embedder.rs`, each the best of five.
"""

import json
import pathlib
import sys
import time

# This file is called as the package is.
sys.path = [path for path in sys.path if pathlib.Path(path).resolve() != pathlib.Path(__file__).resolve().parent]

import torch
from sentence_transformers import SentenceTransformer

ROWS = [(12, 1), (12, 256), (100, 64), (240, 32)]
WORDS = ["the", "river", "was", "found", "in", "seven", "old", "books"]

torch.set_num_threads(int(sys.argv[2]))
model = SentenceTransformer(sys.argv[1], device="cpu")


def speed(words, count):
    texts = [" ".join(WORDS[(word * 3 + number) % 8] for word in range(words)) for number in range(count)]
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        model.encode(texts)
        best = max(best, count / (time.perf_counter() - began))
    return best


rows = [speed(words, count) for words, count in ROWS]
print(json.dumps({"name": "sentence-transformers", "rows": rows}), flush=True)
