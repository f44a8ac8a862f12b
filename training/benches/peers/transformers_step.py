"""One training step of a dense Qwen3 by transformers on the processor, as the peer of `cargo bench -p legwork-training --bench step`.

    python transformers_step.py '{"hidden": 256, ..., "lengths": [1024, 1024], "threads": 2, "rounds": 3}'

Prints one JSON object: tokens a second of whole steps (forward, backward, clipping, AdamW), with and without activations
computed again (gradient checkpointing), each the best of the rounds.
"""

import json
import sys
import time

import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM


def main() -> None:
    shape = json.loads(sys.argv[1])
    torch.set_num_threads(shape["threads"])
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        head_dim=shape["head_dim"],
        intermediate_size=shape["ffn"],
        vocab_size=shape["vocabulary"],
        max_position_embeddings=max(shape["lengths"]),
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    answer = {"name": f"transformers {transformers.__version__}, torch {torch.__version__}"}
    for name, again in [("stored", False), ("recomputed", True)]:
        model = Qwen3ForCausalLM(config).float().train()
        if again:
            model.gradient_checkpointing_enable()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
        # One sequence a pass, gradients added up: no padding and no attention across sequences, as packing has it.
        texts = [torch.randint(0, shape["vocabulary"], (1, length)) for length in shape["lengths"]]
        tokens = sum(shape["lengths"])
        best = float("inf")
        for _ in range(shape["rounds"] + 1):
            began = time.perf_counter()
            for ids in texts:
                # Only every `supervised_every`-th token is in the loss; the head runs on these alone, as ours does.
                hidden = model.model(ids).last_hidden_state[0, :-1]
                rows = torch.arange(0, ids.shape[1] - 1, shape["supervised_every"])
                logits = model.lm_head(hidden[rows])
                loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:][rows], reduction="sum") / tokens
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
            best = min(best, time.perf_counter() - began)
        answer[name] = tokens / best
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
