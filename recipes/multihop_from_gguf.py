"""Writes the weights of a Llama-shaped GGUF file under the names that Hugging Face gives them, dequantised to float32: what
recipes/multihop.sh trains where only a GGUF file is at hand. The folder must already hold config.json and the tokenizer's files.

Run: pip install gguf==0.19.0, then python recipes/multihop_from_gguf.py MODEL.gguf FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def name_of(tensor):
    whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}
    if tensor in whole:
        return whole[tensor]
    _, layer, part, kind = tensor.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.{kind}"


def turned_back(weights, heads):
    """GGUF interleaves the two halves of each head of queries and keys, as its rotary embedding wants them."""
    rows, columns = weights.shape
    return weights.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


source, folder = Path(sys.argv[1]), Path(sys.argv[2])
config = json.loads((folder / "config.json").read_text())
heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
header, parts, at = {"__metadata__": {"format": "pt"}}, [], 0
for tensor in sorted(GGUFReader(source).tensors, key=lambda tensor: name_of(tensor.name)):
    weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    of_heads = [count for part, count in heads.items() if f".{part}." in tensor.name]
    if of_heads:
        weights = turned_back(weights, of_heads[0])
    data = np.ascontiguousarray(weights).tobytes()
    header[name_of(tensor.name)] = {"dtype": "F32", "shape": list(weights.shape), "data_offsets": [at, at + len(data)]}
    parts.append(data)
    at += len(data)
head = json.dumps(header).encode()
head += b" " * (-len(head) % 8)
with open(folder / "model.safetensors", "wb") as out:
    out.write(len(head).to_bytes(8, "little") + head)
    out.writelines(parts)
print(f"{folder}/model.safetensors: {len(parts)} tensors, {at} bytes")
