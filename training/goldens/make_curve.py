"""The golden loss curve of a tiny Qwen3, trained by transformers and torch on the CPU in float32.

    python make_curve.py OUT     writes curve/{config.json, model.safetensors, golden.json}

Fifty updates of AdamW (betas 0.9 and 0.95, eps 1e-8, decay 0.1 on matrices only), the gradient clipped to a norm of 1, the rate
by samples consumed before the update: a line up over a tenth, then half a cosine down. Each sample goes through the model alone,
so that nothing here is packed. Once every supervised token of an update weighs the same (`token`), once every sample (`sample`).
Needs torch, transformers, safetensors. Versions are written into what it makes.
"""

import json
import math
import pathlib
import sys

import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM

SHAPE = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=300,
    max_position_embeddings=128,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
STEPS, BATCH = 50, 4
# Of the vocabulary only these occur, so that fifty updates see each of them often.
SEEN = 60
SCHEDULE = dict(max_rate=3e-3, min_rate=3e-4, warmup_share=0.1, total_samples=STEPS * BATCH)
ADAMW = dict(beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1, clip=1.0)


def samples():
    """Walks over a vocabulary whose next token is mostly a function of the last, so that there is something to learn."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda low, high: int(torch.randint(low, high, (1,), generator=generator))
    made = []
    for _ in range(STEPS * BATCH):
        ids = [draw(0, SEEN)]
        for _ in range(draw(8, 25)):
            random = draw(0, 8) == 0
            ids.append(draw(0, SEEN) if random else (ids[-1] * 7 + 11) % SEEN)
        # A prompt that is not in the loss, then turns that are and are not; at least the last token is.
        prompt = draw(1, 5)
        supervised = [i >= prompt and draw(0, 5) > 0 for i in range(len(ids))]
        supervised[-1] = True
        made.append(dict(ids=ids, supervised=supervised))
    return made


def model():
    torch.manual_seed(3)
    net = Qwen3ForCausalLM._from_config(Qwen3Config(**SHAPE), attn_implementation="eager").float()
    with torch.no_grad():
        for tensor in net.parameters():
            if tensor.dim() == 1:
                tensor.add_(torch.randn_like(tensor) * 0.1)
            else:
                tensor.copy_(torch.randn_like(tensor) * 0.08)
    return net.train()


def rate(consumed):
    total, warmup = SCHEDULE["total_samples"], SCHEDULE["warmup_share"] * SCHEDULE["total_samples"]
    if consumed <= warmup:
        return SCHEDULE["max_rate"] * consumed / warmup
    done = (consumed - warmup) / (total - warmup)
    least = SCHEDULE["min_rate"]
    return least + 0.5 * (1 + math.cos(math.pi * done)) * (SCHEDULE["max_rate"] - least)


def curve(data, normalisation):
    net = model()
    groups = [
        dict(params=[p for p in net.parameters() if p.dim() > 1], weight_decay=ADAMW["decay"]),
        dict(params=[p for p in net.parameters() if p.dim() == 1], weight_decay=0.0),
    ]
    betas = (ADAMW["beta1"], ADAMW["beta2"])
    optimiser = torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=ADAMW["eps"], foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        slot = data[step * BATCH : (step + 1) * BATCH]
        total = sum(sum(sample["supervised"]) for sample in slot)
        optimiser.zero_grad()
        loss = 0.0
        for sample in slot:
            ids = torch.tensor([sample["ids"]])
            mask = torch.tensor(sample["supervised"][1:])
            nll = torch.nn.functional.cross_entropy(net(ids).logits[0, :-1], ids[0, 1:], reduction="none")
            weight = 1 / total if normalisation == "token" else 1 / (BATCH * int(mask.sum()))
            part = (nll * mask).sum() * weight
            part.backward()
            loss += part.item()
        norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), ADAMW["clip"]).item())
        for group in optimiser.param_groups:
            group["lr"] = rate(step * BATCH)
        optimiser.step()
        losses.append(loss)
    return dict(losses=losses, norms=norms)


def main(out):
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    folder = pathlib.Path(out) / "curve"
    model().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "model.safetensors").chmod(0o644)
    data = samples()
    golden = dict(
        versions={"torch": torch.__version__, "transformers": transformers.__version__},
        batch=BATCH,
        schedule=SCHEDULE,
        adamw=ADAMW,
        samples=data,
        token=curve(data, "token"),
        sample=curve(data, "sample"),
    )
    (folder / "golden.json").write_text(json.dumps(golden))


if __name__ == "__main__":
    main(*sys.argv[1:])
