"""How far transformers' own bf16 is from its f32 on the tiny decoders: the measure for backends that compute in bf16.

    python make_bf16_goldens.py DECODER_GOLDENS OUT

Both run on the CPU with eager attention. For each family the divergence KL(f32 || bf16) of the next token, in nats, of each
row whose logits are kept in `golden.json`. Needs torch and transformers; their versions are written into what it makes.
"""

import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM


def logits(folder, ids, dtype):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double()


def main(goldens, out):
    result = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}}
    for name in ("qwen3", "qwen2", "llama"):
        folder = pathlib.Path(goldens) / f"tiny-{name}"
        golden = json.loads((folder / "golden.json").read_text())
        exact = logits(folder, golden["ids"], torch.float32).log_softmax(-1)
        rounded = logits(folder, golden["ids"], torch.bfloat16).log_softmax(-1)
        divergence = (exact.exp() * (exact - rounded)).sum(-1)
        result[name] = {"rows": golden["rows"], "kl": [divergence[row].item() for row in golden["rows"]],
                        "mean_of_all_rows": divergence.mean().item()}
    pathlib.Path(out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
