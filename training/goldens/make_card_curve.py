"""The golden curve of a small Qwen3 in bf16 over master weights of float32, by transformers and torch on the CPU: what a card is
held to.

    python make_card_curve.py OUT     writes OUT/card_curve.json

Twenty updates of AdamW (betas 0.9 and 0.95, eps 1e-8, decay 0.1 on matrices only), the gradient clipped to a norm of 1. A copy
in bf16 goes forward and back, one sequence at a time; its gradients are added up in float32, and the copy is made anew from the
updated master. Beside it the same in float32 throughout, so that one sees what bf16 costs by itself. Weights are not written:
they are numbers of a counter (SplitMix64), as tests/network/card_curve.rs draws them. Needs numpy, torch, transformers.
"""

import json
import pathlib
import sys

import numpy
import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM

SHAPE = dict(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    vocab_size=300,
    max_position_embeddings=512,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
STEPS, BATCH, SEEN = 20, 6, 60
SCALE, NORM_SCALE, SEED = 0.08, 0.1, 3
RATE, DECAY, CLIP = 1e-3, 0.1, 1.0


class Dice:
    """Steele, Lea and Flood's SplitMix64, many numbers at once."""

    def __init__(self, seed):
        self.seed, self.drawn = seed, 0

    def signed(self, count):
        at = numpy.arange(self.drawn + 1, self.drawn + count + 1, dtype=numpy.uint64)
        self.drawn += count
        z = numpy.uint64(self.seed) + at * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
        return (z % numpy.uint64(1 << 24)).astype(numpy.float32) / numpy.float32(1 << 23) - numpy.float32(1)


def names():
    yield "model.embed_tokens.weight"
    for layer in range(SHAPE["num_hidden_layers"]):
        for name in (
            "input_layernorm",
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.q_norm",
            "self_attn.k_norm",
            "self_attn.o_proj",
            "post_attention_layernorm",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
        ):
            yield f"model.layers.{layer}.{name}.weight"
    yield "model.norm.weight"


def model():
    net = Qwen3ForCausalLM._from_config(Qwen3Config(**SHAPE), attn_implementation="eager").float()
    dice, params = Dice(SEED), dict(net.named_parameters())
    assert set(params) == set(names())
    with torch.no_grad():
        for name in names():
            drawn = torch.from_numpy(dice.signed(params[name].numel())).view_as(params[name])
            drawn = 1 + NORM_SCALE * drawn if "norm" in name else SCALE * drawn
            # Both sides begin with the same numbers, of which bf16 holds all.
            params[name].copy_(drawn.bfloat16().float())
    return net.train()


def samples():
    """Walks whose next token is mostly a function of the last, over some of the vocabulary."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda low, high: int(torch.randint(low, high, (1,), generator=generator))
    made = []
    for _ in range(STEPS * BATCH):
        ids = [draw(0, SEEN)]
        for _ in range(draw(20, 200)):
            ids.append(draw(0, SEEN) if draw(0, 8) == 0 else (ids[-1] * 7 + 11) % SEEN)
        prompt = draw(1, 9)
        supervised = [i >= prompt and draw(0, 5) > 0 for i in range(len(ids))]
        supervised[-1] = True
        made.append(dict(ids=ids, supervised=supervised))
    return made


def curve(data, narrow):
    master = model()
    net = model().bfloat16() if narrow else master
    groups = [
        dict(params=[p for p in master.parameters() if p.dim() > 1], weight_decay=DECAY),
        dict(params=[p for p in master.parameters() if p.dim() == 1], weight_decay=0.0),
    ]
    optimiser = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8, foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        slot = data[step * BATCH : (step + 1) * BATCH]
        total = sum(sum(sample["supervised"][1:]) for sample in slot)
        sums = [torch.zeros_like(p) for p in master.parameters()]
        loss = 0.0
        for sample in slot:
            ids, mask = torch.tensor([sample["ids"]]), torch.tensor(sample["supervised"][1:])
            logits = net(ids).logits.float()[0, :-1]
            part = (torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none") * mask).sum() / total
            net.zero_grad()
            part.backward()
            loss += part.item()
            for into, p in zip(sums, net.parameters()):
                into.add_(p.grad.float())
        for into, p in zip(sums, master.parameters()):
            p.grad = into
        norms.append(torch.nn.utils.clip_grad_norm_(master.parameters(), CLIP).item())
        optimiser.step()
        if narrow:
            with torch.no_grad():
                for copy, p in zip(net.parameters(), master.parameters()):
                    copy.copy_(p.bfloat16())
        losses.append(loss)
    return dict(losses=losses, norms=norms)


def main(out):
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    data = samples()
    golden = dict(
        versions={"torch": torch.__version__, "transformers": transformers.__version__},
        batch=BATCH,
        rate=RATE,
        samples=[dict(ids=s["ids"], supervised=[int(flag) for flag in s["supervised"]]) for s in data],
        bf16=curve(data, True),
        f32=curve(data, False),
    )
    for kind in ("f32", "bf16"):
        print(kind, *[f"{loss:.4f}" for loss in golden[kind]["losses"]])
        print(kind, *[f"{norm:.4f}" for norm in golden[kind]["norms"]])
    (pathlib.Path(out) / "card_curve.json").write_text(json.dumps(golden, separators=(",", ":")))


if __name__ == "__main__":
    main(*sys.argv[1:])
