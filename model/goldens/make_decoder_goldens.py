"""Goldens of decoders, made by transformers on the CPU in float32 with eager attention.

    python make_decoder_goldens.py tiny OUT          tiny random models of each family, with logits
    python make_decoder_goldens.py smollm2 GGUF OUT  greedy continuations on the dequantised weights of a GGUF file
    python make_decoder_goldens.py rope OUT          frequencies, and cosines at the last position of a long context

Needs torch, transformers, gguf, safetensors. Versions are written into what it makes.
"""

import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

VERSIONS = {"torch": torch.__version__, "transformers": transformers.__version__}

# head_dim is not hidden / heads, kv heads are fewer than heads, the vocabulary is no multiple of a tile.
SHAPE = dict(
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    vocab_size=163,
    max_position_embeddings=512,
)
LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=10000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
TINY = {
    "qwen3": ("Qwen3", dict(SHAPE, head_dim=16, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True)),
    "qwen2": ("Qwen2", dict(SHAPE, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=False)),
    "llama": ("Llama", dict(SHAPE, rms_norm_eps=1e-5, rope_parameters=LLAMA3, tie_word_embeddings=False)),
}


def tiny(out):
    for name, (family, shape) in TINY.items():
        torch.manual_seed(7)
        config = getattr(transformers, f"{family}Config")(**shape)
        model = getattr(transformers, f"{family}ForCausalLM")._from_config(config, attn_implementation="eager")
        with torch.no_grad():
            for tensor in model.parameters():
                # Norms off one, biases off zero, weights large enough that attention is not uniform.
                if tensor.dim() == 1:
                    tensor.add_(torch.randn_like(tensor) * 0.3)
                else:
                    tensor.copy_(torch.randn_like(tensor) * 0.25)
        model = model.float().eval()
        folder = pathlib.Path(out) / f"tiny-{name}"
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        ids = torch.randint(0, SHAPE["vocab_size"], (200,), generator=torch.Generator().manual_seed(11))
        with torch.no_grad():
            logits = model(ids[None]).logits[0]
        rows = [0, 1, 63, 64, 65, 127, 128, 199]
        golden = dict(
            versions=VERSIONS,
            ids=ids.tolist(),
            rows=rows,
            logits=[[float(f"{x:.7g}") for x in logits[row].tolist()] for row in rows],
        )
        (folder / "golden.json").write_text(json.dumps(golden))


PROMPTS = [
    "The capital of France is",
    "Water boils at",
    "def fibonacci(n):\n",
    "Once upon a time, in a small village by the sea,",
    "1 2 3 4 5 6 7 8",
    "Die Hauptstadt von Deutschland ist",
    "SELECT name, age FROM users WHERE",
    "The three laws of thermodynamics are:",
    "To make a cup of tea, first",
    "Q: What is the largest planet in the solar system?\nA:",
]
CHATS = [
    "Who wrote Romeo and Juliet?",
    "List three primary colours.",
    "What is 17 + 25?",
    "Explain photosynthesis in one sentence.",
    "Write a haiku about rain.",
    "Translate 'good morning' to Spanish.",
    "Name a mammal that can fly.",
    "Search the archive for the founding year of the observatory.",
    "Why is the sky blue?",
    "Give me a JSON object with the keys name and age.",
]


def smollm2(gguf, out):
    path = pathlib.Path(gguf)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    cases = []
    prompts = [tokenizer(text, add_special_tokens=False).input_ids for text in PROMPTS]
    for text in CHATS:
        rendered = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        prompts.append(tokenizer(rendered, add_special_tokens=False).input_ids)
    for ids in prompts:
        prompt = torch.tensor([ids])
        with torch.no_grad():
            made = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=False,
                max_new_tokens=48,
                output_logits=True,
                return_dict_in_generate=True,
                eos_token_id=2,
                pad_token_id=2,
            )
        new = made.sequences[0, len(ids) :].tolist()
        # How far the second likeliest token is behind: an answer that differs is explained by a tie or is wrong.
        margins = []
        for logits in made.logits:
            best = torch.topk(logits[0].float(), 2).values
            margins.append(round(float(best[0] - best[1]), 5))
        cases.append(dict(prompt=ids, new=new, least_margin=min(margins), text=tokenizer.decode(new)))
    golden = dict(versions=VERSIONS, file=path.name, cases=cases)
    pathlib.Path(out, "smollm2_greedy.json").write_text(json.dumps(golden, indent=0))


def rope(out):
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    cases = {}
    qwen3 = transformers.Qwen3Config(head_dim=128, rope_theta=1e6, max_position_embeddings=40960)
    yarn = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=32768)
    long = transformers.Qwen3Config(head_dim=128, rope_parameters=yarn, max_position_embeddings=131072)
    llama3 = dict(LLAMA3, rope_theta=5e5, original_max_position_embeddings=8192, low_freq_factor=1.0)
    llama = transformers.LlamaConfig(
        hidden_size=512, num_attention_heads=4, rope_parameters=llama3, max_position_embeddings=131072
    )
    for name, module in [
        ("qwen3", Qwen3RotaryEmbedding(qwen3)),
        ("yarn", Qwen3RotaryEmbedding(long)),
        ("llama3", LlamaRotaryEmbedding(llama)),
    ]:
        x = torch.zeros(1, 1, 128)
        cos, sin = module(x, torch.tensor([[40959]]))
        cases[name] = dict(
            frequencies=module.inv_freq.tolist(), cos=cos[0, 0, :64].tolist(), sin=sin[0, 0, :64].tolist()
        )
    pathlib.Path(out, "rope.json").write_text(json.dumps(dict(versions=VERSIONS, position=40959, **cases)))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"tiny": tiny, "smollm2": smollm2, "rope": rope}[command](*arguments)
