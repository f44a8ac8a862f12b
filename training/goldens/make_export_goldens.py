"""Goldens of exported folders, and a look at one that was written here, both by torch and transformers.

    python make_export_goldens.py make  MODEL OUT      MODEL: a tiny checkpoint with golden.json, as model/goldens/decoder holds them
    python make_export_goldens.py check FOLDER GOLDEN  whether transformers finds in FOLDER the logits of GOLDEN

`make` rounds each tensor with torch to each kind of number and keeps the SHA-256 of its bytes, and the logits that the
rounded weights give, computed in float32 with eager attention. Needs torch, transformers, safetensors.
"""

import hashlib
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

KINDS = ["float32", "bfloat16", "float16"]
TOLERANCE = 1e-4


def digest(tensor):
    return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def logits(model, ids, rows):
    with torch.no_grad():
        found = model(torch.tensor([ids])).logits[0]
    return [[float(f"{x:.7g}") for x in found[row].tolist()] for row in rows]


def make(folder, out):
    folder = pathlib.Path(folder)
    given = json.loads((folder / "golden.json").read_text())
    ids, rows = given["ids"][:64], [0, 1, 31, 63]
    tensors = load_file(folder / "model.safetensors")
    golden = dict(versions={"torch": torch.__version__, "transformers": transformers.__version__}, ids=ids, rows=rows, kinds={})
    for kind in KINDS:
        rounded = {name: tensor.to(getattr(torch, kind)) for name, tensor in tensors.items()}
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        own = dict(model.named_parameters())
        with torch.no_grad():
            for name, tensor in rounded.items():
                own[name].copy_(tensor.float())
        sha256 = {name: digest(tensor) for name, tensor in sorted(rounded.items())}
        golden["kinds"][kind] = dict(sha256=sha256, logits=logits(model, ids, rows))
    pathlib.Path(out).write_text(json.dumps(golden))


def check(folder, golden):
    golden = json.loads(pathlib.Path(golden).read_text())
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = str(config.dtype).removeprefix("torch.")
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    for what in ["missing_keys", "unexpected_keys", "mismatched_keys"]:
        assert not info[what], (what, info[what])
    found = torch.tensor(logits(model.eval(), golden["ids"], golden["rows"]))
    expected = torch.tensor(golden["kinds"][kind]["logits"])
    off = float((found - expected).abs().max())
    print(f"{kind}: furthest logit {off:.2e} of {float(expected.abs().max()):.1f}, {type(model).__name__}")
    assert off < TOLERANCE, off


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"make": make, "check": check}[command](*arguments)
