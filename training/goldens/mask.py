"""Makes mask.jsonl: chat rows, and the ids and masks that Miles' two rules make of them under the published Qwen3 template.

    python mask.py FOLDER      # with Qwen3's tokenizer.json and tokenizer_config.json, as published

A line: the row; for each tokenizer (`qwen3`, and `tiny` of model/goldens/embedder/tiny-qwen3), each template (the published one
and its two variants, made by replacing two conditions in it) and each mask kind: [tokens, tokens in the loss, the first 16 hex
digits of SHA-256 over the ids (little-endian u32) and over the masks (a byte each)]. `ids` and `runs` (lengths of stretches out
of and in the loss, in turn) are spelled out for Qwen3's tokenizer, the published template and the kind `qwen3`.
The rules are written out here over transformers' apply_chat_template; nothing of the house is used. One case differs from Miles on
purpose: where a row begins with an answer and offers tools, the template's head stands before that answer; Miles masks three
tokens from the head's start and would learn the rest of the head, here the head is masked too. Made with transformers 5.24.
"""

import hashlib
import itertools
import json
import pathlib
import random
import struct
import sys

from transformers import AutoTokenizer, PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
SEED, COUNT = 20261130, 96
STAND_IN = {"role": "user", "content": "only here to be cut away"}

TOOLS = [
    {"type": "function", "function": {"name": "search", "description": "Finds <pages> & \"notes\".", "parameters": {
        "type": "object", "properties": {"query": {"type": "string"}, "topk": {"type": "integer", "default": 10}}}}},
    {"type": "function", "function": {"name": "open_page", "parameters": {"zeta": 1, "alpha": [1.0, True, None, "é\n"]}}},
]
TEXTS = ["One.", "", "\n", "\n\nTwo\n", "  Three ", "é字😀👩‍👩‍👧\u0301", "a\r\nb", "x" * 60, "- a\n- b\n\n```\ncode\n```", "{{ x }}", "tail\n\n\n",
         "<function=search>\n<parameter=query>who</parameter>\n</function>", "<function=finish>\n<parameter=answer>Ada</parameter>\n</function>"]
THOUGHTS = ["Hm.", "\nHm.\n", "two\n\nlines", "é字😀", "a <think> b", "I should search.\n"]
OBSERVED = ["[Search Results for \"who\"]\n--- #1: 7---\ndocid: 7\nurl: x\ncontent: Ada was", "<tool_response>\nx\n</tool_response>", "[Error] none"]


def said(dice):
    """An answer: thinking whole, empty, unclosed, several, apart from the text, or none; calls in XML or native."""
    thought, text = dice.choice(THOUGHTS), dice.choice(TEXTS)
    made = {"role": "assistant", "content": dice.choice([
        f"<think>\n{thought}\n</think>\n\n{text}", f"<think>{thought}</think>{text}", f"<think>\n\n</think>\n\n{text}", f"<think>\n{thought}",
        f"{text}<think>{thought}", f"a<think>{thought}</think>{text}", f"<think>a</think>lost<think>b</think>{text}", f"</think>{text}", text, text])}
    if dice.random() < 0.3:
        made["reasoning_content"] = dice.choice(THOUGHTS + [""])
    if dice.random() < 0.3:
        arguments = [{"query": "a \"b\" <c>", "n": 1.5}, {}, '{"query": "raw"}', {"b": 1, "a": {"z": [None, True]}}]
        made["tool_calls"] = [{"id": f"c{number}", "type": "function", "function": {"name": dice.choice(["search", "名前"]), "arguments": dice.choice(arguments)}}
                              for number in range(dice.choice([1, 1, 2]))]
    if dice.random() < 0.35:
        made["step_loss_mask"] = dice.choice([0, 0, 1])
    return made


def row(dice, index):
    shapes = ["sua", "sauaua", "suauaua", "ua", "a", "aua", "uaa", "uatta", "sutatata", "uattta", "usa", "suatuta", "tata", "ssa"]
    roles = shapes[index % len(shapes)] if index < 3 * len(shapes) else dice.choice(["s", ""]) + "u" + "".join(dice.choice("aautt") for _ in range(dice.randrange(1, 9))) + "a"
    messages = []
    for role in roles:
        if role == "a":
            messages.append(said(dice))
        elif role == "t":
            messages.append({"role": "tool", "content": dice.choice(TEXTS), "tool_call_id": "c0"})
        else:
            observed = role == "u" and len(messages) > 2
            messages.append({"role": {"s": "system", "u": "user"}[role], "content": dice.choice(OBSERVED if observed else TEXTS)})
    if not any(one.get("step_loss_mask", 1) == 1 for one in messages if one["role"] == "assistant"):
        del next(one for one in reversed(messages) if one["role"] == "assistant")["step_loss_mask"]
    made = {"messages": messages}
    if dice.random() < 0.4:
        made["tools"] = dice.choice([TOOLS, TOOLS[:1]])
    return made


def masked(tokenizer, template, row, kind):
    """The rule: ids and masks, message by message."""
    def ids_of(messages, tools=None):
        return tokenizer.apply_chat_template(messages, tools=tools, chat_template=template, tokenize=True, return_dict=False)

    stand_in = ids_of([STAND_IN])
    header = tokenizer.apply_chat_template([STAND_IN], chat_template=template, tokenize=True, return_dict=False, add_generation_prompt=True)[len(stand_in):]
    assert len(header) == 3 or tokenizer.vocab_size < 1000
    ids, masks = [], []
    for index, message in enumerate(row["messages"]):
        tools = row.get("tools") if index == 0 else None
        if kind == "qwen":
            own = ids_of([message], tools)
        elif index == 0:
            own = ids_of([message, STAND_IN], tools)
            assert own[-len(stand_in):] == stand_in
            own = own[:-len(stand_in)]
        else:
            own = ids_of([STAND_IN, message])
            assert own[:len(stand_in)] == stand_in
            own = own[len(stand_in):]
        learned = message["role"] == "assistant" and message.get("step_loss_mask", 1) == 1
        begin = next((at for at in range(len(own)) if own[at:at + len(header) - 1] == header[:-1]), 0) if learned else 0
        assert begin == 0 or (index == 0 and row.get("tools"))
        ids += own
        masks += [int(learned and place >= begin + len(header)) for place in range(len(own))]
    return ids, masks


def replaced(source, old, new):
    assert source.count(old) == 1, (old, source.count(old))
    return source.replace(old, new)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def main():
    real = AutoTokenizer.from_pretrained(sys.argv[1])
    tiny = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "../../model/goldens/embedder/tiny-qwen3/tokenizer.json"))
    templates = {"qwen3": real.chat_template}
    for name, condition in (("qwen3_fixed", "clear_thinking is defined and clear_thinking is false"),
                            ("keep_think", "not (clear_thinking is defined and clear_thinking is true)")):
        source = replaced(real.chat_template, "loop.last or (not loop.last and reasoning_content)", "true")
        templates[name] = replaced(source, "loop.index0 > ns.last_query_index", f"loop.index0 > ns.last_query_index or ({condition})")
    # The tiny tokenizer's marker at the end of a text is no part of a conversation.
    tiny.backend_tokenizer.post_processor = real.backend_tokenizer.post_processor
    dice, lines, same = random.Random(SEED), [], 0
    for index in range(COUNT):
        made = row(dice, index)
        line = {"row": made, "expected": {}}
        for (name, tokenizer), (template, source), kind in itertools.product((("qwen3", real), ("tiny", tiny)), templates.items(), ("qwen3", "qwen")):
            ids, masks = masked(tokenizer, source, made, kind)
            packed = struct.pack(f"<{len(ids)}I", *ids)
            line["expected"][f"{name}/{template}/{kind}"] = [len(ids), sum(masks), digest(packed), digest(bytes(masks))]
            if (name, template, kind) == ("qwen3", "qwen3", "qwen3"):
                line["ids"], line["runs"], now = ids, [], 0
                for value, run in itertools.groupby(masks):
                    line["runs"] += ([] if value == now else [0]) + [len(list(run))]
                    now = 1 - value
        roles = [one["role"] for one in made["messages"]]
        if not any(pair == ("tool", "tool") for pair in zip(roles, roles[1:])):
            whole = real.apply_chat_template(made["messages"], tools=made.get("tools"), chat_template=templates["qwen3_fixed"],
                                             clear_thinking=False, tokenize=True, return_dict=False)
            assert whole == masked(real, templates["keep_think"], made, "qwen3")[0], index
            same += 1
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    (HERE / "mask.jsonl").write_text("".join(lines))
    print(f"{COUNT} rows, of which {same} are as a whole what they are message by message")


main()
