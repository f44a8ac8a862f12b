"""A decoder of Qwen3-4B's shape with random weights from a seed, and what transformers computes with it.

    python make_qwen3_4b.py OUT [--layers N] [--seed S] [--device cuda] ...

OUT is a folder as Hugging Face has it: bf16, in shards. Weights are normal with a deviation of 0.02; norms are 1 and small
noise, so that a norm that is left out shows; the final norm is four times that, so that some tokens are far more probable
than others, as in a model that was trained.

Beside it, for each prompt `i`: `parity-i-ids.npy` (int32), and log-probabilities `[64, vocabulary]` of its last 64 positions in
float32: `parity-i-exact.npy` of the model widened to float32 (eager attention, no TF32), `parity-i-bf16.npy` of it in bf16 as
transformers runs it (sdpa). The divergence of each from the exact one is printed, of eager attention too. Needs torch,
transformers and numpy.
"""

import argparse
import json
import pathlib
import time

import numpy
import torch
import transformers
from transformers import AutoModelForCausalLM, Qwen3Config

# Lengths of the prompts: within a page, across pages, none a multiple of 64.
PROMPTS = (300, 517, 770, 1000)
# Positions whose log-probabilities are kept.
LAST = 64


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--hidden", type=int, default=2560)
    parser.add_argument("--ffn", type=int, default=9728)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--shard", default="2GB")
    return parser.parse_args()


class Clock:
    def __init__(self):
        self.began = time.perf_counter()

    def tell(self, what):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        print(f"{what}: {now - self.began:.1f} s", flush=True)
        self.began = now


def fill(model, seed, device):
    """Random weights, in the order of their names."""
    dice = torch.Generator(device=device).manual_seed(seed)
    with torch.no_grad():
        for name, values in sorted(model.named_parameters()):
            noise = torch.randn(values.shape, generator=dice, device=device, dtype=torch.float32)
            if values.ndim == 2:
                values.copy_(0.02 * noise)
            else:
                scale = 4.0 if name == "model.norm.weight" else 1.0
                values.copy_(scale * (1.0 + 0.1 * noise))


def last_logprobs(model, ids):
    """Log-probabilities of the last positions, in float32 from sums in float64."""
    with torch.no_grad():
        logits = model(ids[None], logits_to_keep=LAST).logits[0].double()
        return logits.log_softmax(-1)


def divergence(exact, other):
    return (exact.exp() * (exact - other)).sum(-1)


def main():
    given = arguments()
    clock = Clock()
    config = Qwen3Config(
        vocab_size=given.vocabulary, hidden_size=given.hidden, intermediate_size=given.ffn,
        num_hidden_layers=given.layers, num_attention_heads=given.heads, num_key_value_heads=given.kv_heads,
        head_dim=given.head_dim, max_position_embeddings=40_960, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        bos_token_id=None, eos_token_id=None, pad_token_id=None)
    with torch.device(given.device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    fill(model, given.seed, given.device)
    clock.tell(f"made {sum(p.numel() for p in model.parameters()):,} weights")
    given.out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(given.out, max_shard_size=given.shard)
    clock.tell("saved")

    dice = torch.Generator().manual_seed(given.seed + 1)
    prompts = [torch.randint(0, given.vocabulary, (length,), generator=dice) for length in PROMPTS]
    rounded = [last_logprobs(model, ids.to(given.device)) for ids in prompts]
    model.set_attn_implementation("eager")
    eager = [last_logprobs(model, ids.to(given.device)) for ids in prompts]
    clock.tell("transformers in bf16")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    model.float()
    told = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "prompts": []}
    for index, ids in enumerate(prompts):
        exact = last_logprobs(model, ids.to(given.device))
        for name, values in (("exact", exact), ("bf16", rounded[index])):
            numpy.save(given.out / f"parity-{index}-{name}.npy", values.float().cpu().numpy())
        numpy.save(given.out / f"parity-{index}-ids.npy", ids.int().numpy())
        of_sdpa, of_eager = divergence(exact, rounded[index]), divergence(exact, eager[index])
        told["prompts"].append({"tokens": len(ids), "kl_sdpa": of_sdpa.mean().item(), "kl_eager": of_eager.mean().item()})
        print(f"prompt of {len(ids)}: KL(f32 || bf16) of transformers, mean and greatest of {LAST}: "
              f"sdpa {of_sdpa.mean():.3e} {of_sdpa.max():.3e}, eager {of_eager.mean():.3e} {of_eager.max():.3e}; "
              f"greatest probability {exact.max(-1).values.exp().mean():.3f} in the mean")
    (given.out / "parity.json").write_text(json.dumps(told, indent=1) + "\n")
    clock.tell("transformers in f32, goldens written")


if __name__ == "__main__":
    main()
