"""Whether transformers reads a folder that `legwork init` made: model, tokenizer and chat template.

    python check_init.py FOLDER

Needs torch, transformers, tokenizers.
"""

import pathlib
import sys

import tokenizers
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

TEXTS = ["Who founded the observatory?", "naïve café — 12345\n\n  x", "<think>\nhm\n</think>\n\n<|im_end|>", "e\u0301 \u2603 \U0001d11e"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKERS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]


def main(folder):
    config = AutoConfig.from_pretrained(folder)
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    for what in ["missing_keys", "unexpected_keys", "mismatched_keys"]:
        assert not info[what], (what, info[what])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    plain = tokenizers.Tokenizer.from_file(str(pathlib.Path(folder, "tokenizer.json")))
    assert len(tokenizer) == config.vocab_size == plain.get_vocab_size(), (len(tokenizer), config.vocab_size)
    first = config.vocab_size - len(CONTROL) - len(MARKERS)
    assert tokenizer.convert_tokens_to_ids(CONTROL + MARKERS) == list(range(first, config.vocab_size))
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        assert ids == plain.encode(text).ids, text
        assert tokenizer.decode(ids).strip() == __import__("unicodedata").normalize("NFC", text).strip(), text
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.pad_token == "<|endoftext|>"
    bare = tokenizer.decode(tokenizer.convert_tokens_to_ids(CONTROL + MARKERS), skip_special_tokens=True)
    assert bare == "".join(MARKERS), bare
    chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]
    shown = tokenizer.apply_chat_template(chat, tokenize=False)
    assert shown == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\ngood day<|im_end|>\n", shown
    ends = GenerationConfig.from_pretrained(folder).eos_token_id
    with torch.no_grad():
        logits = model(torch.tensor([tokenizer(TEXTS[0]).input_ids])).logits
    count = sum(p.numel() for p in model.parameters())
    print(f"{type(model).__name__} {model.dtype}, {count} weights, {type(tokenizer).__name__}, ends {ends}, largest logit {logits.abs().max():.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
