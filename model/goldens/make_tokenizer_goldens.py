"""Makes tokenizer_*.txt: what transformers' and llama.cpp's tokenizers make of the seeded strings of strings.py.

    python make_tokenizer_goldens.py qwen3   FOLDER            # with tokenizer.json and tokenizer_config.json, as published
    python make_tokenizer_goldens.py smollm2 FILE.gguf         # needs xllamacpp, Python bindings of llama.cpp

A line is a block of 100 strings: its number, tokens with control tokens as text, tokens with control tokens recognised, and
the first 16 hex digits of SHA-256 over both kinds of ids and over the decoded texts. Ids are hashed as little-endian u32
behind their count, texts as UTF-8 behind their length in bytes. Made with transformers 5.24, tokenizers 0.23.3 and llama.cpp
of xllamacpp 2026.10.

SmolLM2's vocabulary has no token for 21 bytes. Both transformers and llama.cpp leave such a byte out, but transformers merges
what stands on either side of it and llama.cpp does not (2 of 2,000 strings differ by it). We do as transformers does, so
characters with such a byte are taken out of the strings before llama.cpp sees them.
"""

import hashlib
import pathlib
import struct
import sys

from strings import string

SEED = 20261130
BLOCK = 100
HERE = pathlib.Path(__file__).parent
LACKING = {"qwen3": b"", "smollm2": bytes([0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)])}


def qwen3(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(text, rendered):
        return tokenizer(text, add_special_tokens=False, split_special_tokens=not rendered)["input_ids"]

    def decode(ids):
        return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    return 10_000, encode, decode


def smollm2(path):
    import json
    import urllib.request

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 64
    params.warmup = False
    params.hostnames = ["127.0.0.1"]
    params.port = 18777
    server = xllamacpp.Server(params)

    def ask(path, body):
        request = urllib.request.Request(
            f"{server.listening_address}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request))

    def encode(text, rendered):
        return ask("tokenize", {"content": text, "add_special": False, "parse_special": rendered})["tokens"]

    def decode(ids):
        return ask("detokenize", {"tokens": ids})["content"]

    return 2_000, encode, decode


def main():
    name, path = sys.argv[1], sys.argv[2]
    count, encode, decode = {"qwen3": qwen3, "smollm2": smollm2}[name](path)
    lines = []
    for block in range(count // BLOCK):
        text_hash, rendered_hash, decoded_hash = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
        tokens = [0, 0]
        for index in range(block * BLOCK, (block + 1) * BLOCK):
            text = "".join(one for one in string(SEED, index) if not set(one.encode()) & set(LACKING[name]))
            for place, hashed in enumerate((text_hash, rendered_hash)):
                ids = encode(text, rendered=place == 1)
                tokens[place] += len(ids)
                hashed.update(struct.pack(f"<I{len(ids)}I", len(ids), *ids))
            decoded = decode(ids).encode()
            decoded_hash.update(struct.pack("<I", len(decoded)) + decoded)
        hashes = " ".join(one.hexdigest()[:16] for one in (text_hash, rendered_hash, decoded_hash))
        lines.append(f"{block} {tokens[0]} {tokens[1]} {hashes}\n")
    (HERE / f"tokenizer_{name}.txt").write_text("".join(lines))


main()
