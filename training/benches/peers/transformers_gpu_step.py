"""Training steps of Qwen3-4B's shape by transformers on one card, as the peer of `cargo bench -p legwork-training --bench gpu_train`.

    python transformers_gpu_step.py [LENGTH ...]     8192, 32768 and 40960 tokens where none are given

Random weights in bf16, attention by sdpa, gradient checkpointing, AdamW with torch's fused kernel over the bf16 weights (so its
moments are bf16 too: what fits most easily), the gradient clipped to a norm of 1, every token in the loss. Prints a line a
length: tokens a second and the share of 990 TFLOP/s, by the same count of operations as ours; a length whose logits do not fit is
tried again with the loss computed for some rows at a time.
"""

import statistics
import sys
import time

import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM

SHAPE = dict(
    hidden_size=2560,
    intermediate_size=9728,
    num_hidden_layers=36,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=151936,
    max_position_embeddings=40960,
    rope_theta=1e6,
    tie_word_embeddings=True,
)
ROUNDS, STATED, CHUNK = 2, 990e12, 2048


def flops(tokens):
    s = SHAPE
    width, kv = s["num_attention_heads"] * s["head_dim"], s["num_key_value_heads"] * s["head_dim"]
    layer = s["hidden_size"] * (2 * width + 2 * kv) + 3 * s["hidden_size"] * s["intermediate_size"]
    weights = s["num_hidden_layers"] * layer + s["hidden_size"] * s["vocab_size"]
    return 6 * weights * tokens + 12 * s["num_hidden_layers"] * width * tokens**2 / 2


def chunk_loss(head, hidden, targets):
    logits = torch.nn.functional.linear(hidden, head).float()
    return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")


def step(model, optimiser, ids, chunked):
    if chunked:
        hidden = model.model(ids).last_hidden_state[0, :-1]
        parts = zip(hidden.split(CHUNK), ids[0, 1:].split(CHUNK))
        again = torch.utils.checkpoint.checkpoint
        loss = sum(again(chunk_loss, model.lm_head.weight, h, t, use_reentrant=False) for h, t in parts) / ids.numel()
    else:
        loss = model(ids, labels=ids, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return loss


def main():
    lengths = [int(word) for word in sys.argv[1:]] or [8192, 32768, 40960]
    torch.manual_seed(0)
    with torch.device("cuda"):
        config = Qwen3Config(**SHAPE, attn_implementation="sdpa", dtype=torch.bfloat16)
        model = Qwen3ForCausalLM._from_config(config).bfloat16().train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for length in lengths:
        ids = torch.randint(0, SHAPE["vocab_size"], (1, length), device="cuda")
        for chunked in (False, True):
            try:
                torch.cuda.reset_peak_memory_stats()
                times = []
                for _ in range(1 + ROUNDS):
                    torch.cuda.synchronize()
                    began = time.perf_counter()
                    loss = step(model, optimiser, ids, chunked).item()
                    torch.cuda.synchronize()
                    times.append(time.perf_counter() - began)
                seconds = statistics.median(times[1:])
                gib = torch.cuda.max_memory_allocated() / 2**30
                how = "loss in chunks" if chunked else "its own loss"
                print(
                    f"{length} tokens, {how}: {seconds:.3f} s, {length / seconds:.0f} tokens/s, "
                    f"MFU {100 * flops(length) / seconds / STATED:.1f} %, {gib:.1f} GiB, loss {loss:.4f}",
                    flush=True,
                )
                break
            except torch.OutOfMemoryError:
                optimiser.zero_grad(set_to_none=True)
                torch.cuda.empty_cache()
                print(f"{length} tokens: out of memory{' in chunks too' if chunked else ''}", flush=True)


if __name__ == "__main__":
    main()
