"""How far transformers' bf16 is from its own f32: losses and gradients of tiny random models, shaped as those of
tests/network/tiny.rs, whose weights bf16 holds. Prints what tests/network/card.rs measures itself by.

    python bf16_gradients.py > bf16_gradients.txt
"""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

SHAPE = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=300,
    max_position_embeddings=512,
    rms_norm_eps=1e-6,
    attn_implementation="eager",
)
LENGTHS = (9, 20, 70)


def gradients(model, sequences):
    total = 0.0
    for ids in sequences:
        logits = model(ids).logits.float()[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:]) / len(sequences)
        loss.backward()
        total += loss.item()
    return total, {name: value.grad.float() for name, value in model.named_parameters()}


def compare(kind, config):
    torch.manual_seed(0)
    single = kind(config)
    with torch.no_grad():
        for name, value in single.named_parameters():
            drawn = 2 * torch.rand_like(value) - 1
            drawn = 1 + 0.3 * drawn if "norm" in name else 0.25 * drawn
            value.copy_(drawn.bfloat16().float())
    narrow = kind(config)
    narrow.load_state_dict(single.state_dict())
    narrow = narrow.bfloat16()
    sequences = [torch.randint(0, SHAPE["vocab_size"], (1, length)) for length in LENGTHS]
    (loss, truth), (narrow_loss, got) = gradients(single, sequences), gradients(narrow, sequences)
    off = {name: ((got[name] - truth[name]).norm() / truth[name].norm()).item() for name in truth}
    worst = max(off, key=off.get)
    print(f"{kind.__name__}: loss off by {abs(loss - narrow_loss) / loss:.1e} of itself")
    print(f"{kind.__name__}: furthest gradient {worst}, off by {off[worst]:.4f} of its length")


if __name__ == "__main__":
    torch.set_num_threads(1)
    compare(Qwen3ForCausalLM, Qwen3Config(**SHAPE, head_dim=16, tie_word_embeddings=True))
    compare(Qwen2ForCausalLM, Qwen2Config(**SHAPE, tie_word_embeddings=False))
