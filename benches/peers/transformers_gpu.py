"""transformers on a card, beside `engine/benches/gpu.rs`: python transformers_gpu.py MODEL [--seconds 90] [--only TEXT].

Rows in the same units: decode at a batch and a context, with a static cache compiled into CUDA graphs and as plain `generate`
does it; prefill of a prompt with the head on its last token. Random ids, greedy. Nothing new is begun after `--seconds`.
Needs torch and transformers; says which of vLLM and SGLang are there.
"""

import argparse
import importlib.metadata
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, StaticCache

STEPS = 64


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("--attention", default="sdpa")
    return parser.parse_args()


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not there"


class Bench:
    def __init__(self, given):
        self.began = time.perf_counter()
        self.seconds = given.seconds
        self.only = given.only
        self.model = AutoModelForCausalLM.from_pretrained(
            given.model, dtype=torch.bfloat16, attn_implementation=given.attention, device_map="cuda").eval()
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = 0
        self.vocabulary = self.model.config.vocab_size

    def row(self, what, run):
        """`run` gives tokens and seconds."""
        if self.only not in what:
            return
        if time.perf_counter() - self.began > self.seconds:
            print(f"| {what} | not begun: {self.seconds:.0f} s are over |", flush=True)
            return
        try:
            tokens, seconds = run()
            print(f"| {what} | {tokens / seconds:,.0f} tok/s |", flush=True)
        except Exception as error:  # A peer that fails is told of, and the others still run.
            print(f"| {what} | failed: {type(error).__name__}: {str(error)[:160]} |", flush=True)
        torch.cuda.empty_cache()

    def ids(self, batch, length):
        return torch.randint(0, self.vocabulary, (batch, length), device="cuda")

    def prefill(self, length):
        times = []
        with torch.no_grad():
            for _ in range(4):
                ids = self.ids(1, length)
                torch.cuda.synchronize()
                began = time.perf_counter()
                self.model(ids, logits_to_keep=1, use_cache=True)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - began)
        return length, min(times[1:])

    def generate(self, batch, context):
        """Seconds of `generate` for so many tokens, less those of its first."""
        def seconds(tokens):
            ids = self.ids(batch, context)
            torch.cuda.synchronize()
            began = time.perf_counter()
            self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
            torch.cuda.synchronize()
            return time.perf_counter() - began
        seconds(2)
        first = seconds(1)
        return batch * (STEPS - 1), seconds(STEPS) - first

    def static(self, batch, context, is_compiled):
        """Steps over a static cache."""
        cache = StaticCache(config=self.model.config, max_cache_len=context + STEPS + 16)
        step = torch.compile(self.model.forward, mode="reduce-overhead", fullgraph=True) if is_compiled else self.model.forward
        with torch.no_grad():
            ids = self.ids(batch, context)
            rows = max(1, 16_384 // context)
            if batch <= rows:
                logits = self.model(ids, past_key_values=cache, cache_position=torch.arange(context, device="cuda"),
                                    logits_to_keep=1).logits
            else:
                # The first step makes the room; what lies in the cache is random, which takes as long.
                logits = self.model(ids[:, :16], past_key_values=cache, cache_position=torch.arange(16, device="cuda"),
                                    logits_to_keep=1).logits
                for layer in cache.layers:
                    layer.keys.normal_()
                    layer.values.normal_()
            next_ids = logits[:, -1].argmax(-1, keepdim=True)
            position = torch.tensor([context], device="cuda")

            def one():
                nonlocal next_ids
                logits = step(next_ids, past_key_values=cache, cache_position=position, position_ids=position[None],
                              use_cache=True).logits
                next_ids = logits[:, -1].argmax(-1, keepdim=True).clone()
                position.add_(1)

            began = time.perf_counter()
            for _ in range(4):
                one()
            torch.cuda.synchronize()
            warm = time.perf_counter() - began
            began = time.perf_counter()
            for _ in range(STEPS):
                one()
            torch.cuda.synchronize()
            taken = time.perf_counter() - began
        if is_compiled:
            print(f"(compiled within {warm:.0f} s)")
        return batch * STEPS, taken


def main():
    given = arguments()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, vllm {version('vllm')}, "
          f"sglang {version('sglang')}, flash-attn {version('flash-attn')}; attention {given.attention}")
    bench = Bench(given)
    torch.cuda.synchronize()
    print(f"loaded in {time.perf_counter() - bench.began:.0f} s")
    for length in (2_048, 8_192):
        bench.row(f"transformers, prefill {length}", lambda length=length: bench.prefill(length))
    bench.row("transformers, generate, batch 1 at 1,024", lambda: bench.generate(1, 1_024))
    bench.row("transformers, generate, batch 64 at 1,024", lambda: bench.generate(64, 1_024))
    bench.row("transformers, static cache, batch 1 at 1,024", lambda: bench.static(1, 1_024, False))
    bench.row("transformers, static cache compiled, batch 1 at 1,024", lambda: bench.static(1, 1_024, True))
    bench.row("transformers, static cache compiled, batch 64 at 1,024", lambda: bench.static(64, 1_024, True))


if __name__ == "__main__":
    main()
