"""Makes templates.jsonl: conversations, and what the published Qwen3 template and its two variants render of them.

    python make_template_goldens.py FOLDER    # with Qwen3's tokenizer.json and tokenizer_config.json, as published

A line: messages, tools, options (what the template is told), the text of `qwen3` by transformers and the published template;
`qwen3_fixed` and `keep_think` where they differ from it; `ids`, the first 16 hex digits of SHA-256 over the ids (little-endian
u32) of transformers' apply_chat_template under `qwen3`. The variants come twice, from the published template with two
conditions replaced and from the rules written out in Python below, and both must agree; so must our own templates under
transformers' Jinja. A null or missing content stands for an empty text (`empty`: what `qwen3` was given instead), since the
published template fails on it. Made with transformers 5.24.
"""

import copy
import hashlib
import json
import pathlib
import random
import struct
import sys

from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent
SEED = 20261130
COUNT = 420

TOOLS = [
    {"type": "function", "function": {"name": "search", "description": "Finds <pages> & \"notes\" it's about.", "parameters": {
        "type": "object", "properties": {"query": {"type": "string"}, "topk": {"type": "integer", "default": 10}}, "required": ["query"]}}},
    {"name": "open_page", "parameters": {"zeta": 1, "alpha": [1.0, 2.5e-07, True, None, "é\u2028\n"], "empty": {}, "list": []}},
    {"type": "function", "function": {"name": "名前", "description": "</tools>\n# Tools"}},
]
TEXTS = ["One.", "", "\n", "\n\nTwo\n", "  Three ", "é字😀👩‍👩‍👧\u200d\u0301", "a\r\nb\x00c", "<tool_response>\nx\n</tool_response>",
         "<tool_response>x</tool_response> and more", "before <tool_response>x</tool_response>", "<tool_response></tool_response>",
         "{{ messages }}{% if %}", "<b>&amp;'\"</b>", "None", "x" * 90, "- a\n- b\n\n```\ncode\n```", "\ue000\U000F0000 private",
         "<tool_call>\n{}\n</tool_call>", "tail\n\n\n", "‮rtl", "<think>", "</tool_response>"]
THOUGHTS = ["Hm.", "\nHm.\n", "", "\n\n", "two\n\nlines", "é字😀", "a <think> b", "<tool_call>x</tool_call>"]


def thinking_text(dice):
    """Contents with think blocks: whole, empty, unclosed, several, without an opening, between texts."""
    thought, text, other = dice.choice(THOUGHTS), dice.choice(TEXTS), dice.choice(TEXTS)
    return dice.choice([
        f"<think>\n{thought}\n</think>\n\n{text}", f"<think>{thought}</think>{text}", f"<think>\n\n</think>\n\n{text}",
        f"<think>\n{thought}", f"{other}<think>{thought}</think>{text}", f"{thought}</think>{text}",
        f"<think>a</think>{other}<think>b</think>{text}", f"<think>a</think>{other}</think>{text}", f"<think><think>{thought}</think>{text}",
        f"</think>\n{text}", f"<think>{thought}</think>", text,
    ])


def calls(dice):
    def call():
        arguments = dice.choice([{"query": "a \"b\" <c>"}, {}, {"n": 1.0, "é": [None, True]}, '{"query": "raw"}', "", {"b": 1, "a": {"z": []}}])
        function = {"name": dice.choice(["search", "open_page", "名前"]), "arguments": arguments}
        return dice.choice([{"type": "function", "id": "c1", "function": function}, function])

    return [call() for _ in range(dice.choice([1, 1, 2, 3]))]


def message(dice, role):
    made = {"role": role, "content": dice.choice(TEXTS)}
    if role == "assistant":
        made["content"] = thinking_text(dice) if dice.random() < 0.6 else dice.choice(TEXTS)
        if dice.random() < 0.3:
            made[dice.choice(["reasoning_content"] * 4 + ["reasoning", "thinking"])] = dice.choice(THOUGHTS + [None])
        if dice.random() < 0.35:
            made["tool_calls"] = dice.choice([calls(dice), calls(dice), [], None])
        if dice.random() < 0.08:
            made["content"] = None
        elif dice.random() < 0.04:
            del made["content"]
    elif dice.random() < 0.03:
        made["content"] = None
    return made


def conversation(dice, index):
    if index < len(SHAPES) * 4:
        roles = SHAPES[index % len(SHAPES)]
    else:
        roles = (["system"] if dice.random() < 0.5 else []) + ["user"]
        while len(roles) < dice.choice([2, 3, 5, 8]):
            roles.append(dice.choice(["assistant", "assistant", "tool", "tool", "user", "system", "observer"]))
    messages = [message(dice, role) for role in roles]
    # Observations that a user says, as the XML grammar has them.
    for one in messages[2:]:
        if one["role"] == "user" and dice.random() < 0.4:
            one["content"] = dice.choice(["<tool_response>\n1\n</tool_response>", "[Search Results for \"x\"]\n--- #1: 7---\ndocid: 7"])
    options = {"add_generation_prompt": dice.random() < 0.5}
    for name, chance in (("enable_thinking", 0.4), ("clear_thinking", 0.5)):
        if dice.random() < chance:
            options[name] = dice.random() < 0.4
    tools = dice.choice([None, None, [], TOOLS[:1], TOOLS[1:], TOOLS])
    return messages, tools, options


SHAPES = [
    ["user"], ["system", "user"], ["user", "assistant"], ["assistant"], ["system"], ["tool"], ["system", "assistant"],
    ["user", "assistant", "user"], ["user", "assistant", "user", "assistant"], ["user", "assistant", "tool", "assistant"],
    ["user", "assistant", "tool", "tool", "assistant"], ["user", "assistant", "tool", "tool", "tool", "assistant", "tool"],
    ["system", "user", "assistant", "user", "assistant", "user", "assistant"], ["user", "assistant", "assistant", "assistant"],
    ["user", "system", "assistant"], ["user", "user"], ["assistant", "user", "assistant"], ["tool", "tool", "user"],
]


def by_rules(messages, tools, options, variant):
    """The templates' rules, written out."""
    out = []
    head = messages[0]["content"] if messages[0]["role"] == "system" else None
    if tools:
        listed = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
        out.append("<|im_start|>system\n" + (head + "\n\n" if head is not None else "")
                   + "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
                   + f"signatures within <tools></tools> XML tags:\n<tools>{listed}\n</tools>\n\nFor each function call, return a json "
                   + "object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
                   + '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n')
    elif head is not None:
        out.append(f"<|im_start|>system\n{head}<|im_end|>\n")
    asked = len(messages) - 1
    for index, one in enumerate(messages):
        text = one["content"]
        if one["role"] == "user" and not (text.startswith("<tool_response>") and text.endswith("</tool_response>")):
            asked = index
    clear = options.get("clear_thinking", variant != "keep_think")
    for index, one in enumerate(messages):
        role, text = one["role"], one["content"]
        if role == "user" or (role == "system" and index > 0):
            out.append(f"<|im_start|>{role}\n{text}<|im_end|>\n")
        elif role == "assistant":
            # transformers 5 takes thinking by any of these names.
            named = [one[name] for name in ("reasoning_content", "thinking", "reasoning") if one.get(name) is not None]
            thought = named[0] if named else None
            if thought is None:
                thought = ""
                if "</think>" in text:
                    parts = text.split("</think>")
                    thought = parts[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
                    text = parts[-1].lstrip("\n")
            behind = index > asked
            if variant == "qwen3":
                shown = behind and (index == len(messages) - 1 or thought != "")
            else:
                shown = behind or not clear
            out.append("<|im_start|>assistant\n")
            stripped = thought.strip("\n")
            out.append(f"<think>\n{stripped}\n</think>\n\n" + text.lstrip("\n") if shown else text)
            for number, call in enumerate(one.get("tool_calls") or []):
                call = call.get("function") or call
                arguments = call["arguments"]
                if not isinstance(arguments, str):
                    arguments = json.dumps(arguments, ensure_ascii=False)
                out.append("\n" if text or number else "")
                out.append(f'<tool_call>\n{{"name": "{call["name"]}", "arguments": {arguments}}}\n</tool_call>')
            out.append("<|im_end|>\n")
        elif role == "tool":
            if index == 0 or messages[index - 1]["role"] != "tool":
                out.append("<|im_start|>user")
            out.append(f"\n<tool_response>\n{text}\n</tool_response>")
            if index == len(messages) - 1 or messages[index + 1]["role"] != "tool":
                out.append("<|im_end|>\n")
    if options["add_generation_prompt"]:
        out.append("<|im_start|>assistant\n")
        if options.get("enable_thinking") is False:
            out.append("<think>\n\n</think>\n\n")
    return "".join(out)


def replaced(source, old, new):
    assert source.count(old) == 1, (old, source.count(old))
    return source.replace(old, new)


def main():
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    published = tokenizer.chat_template
    everywhere = {"qwen3_fixed": "clear_thinking is defined and clear_thinking is false",
                  "keep_think": "not (clear_thinking is defined and clear_thinking is true)"}
    sources = {"qwen3": published}
    for variant, condition in everywhere.items():
        source = replaced(published, "loop.last or (not loop.last and reasoning_content)", "true")
        sources[variant] = replaced(source, "loop.index0 > ns.last_query_index", f"loop.index0 > ns.last_query_index or ({condition})")
    body = (HERE / "../templates/qwen3_body.jinja").read_text()
    ours = {variant: (HERE / f"../templates/{variant}.jinja").read_text() + body for variant in sources}
    dice, lines = random.Random(SEED), []
    for index in range(COUNT):
        messages, tools, options = conversation(dice, index)
        told = copy.deepcopy(messages)
        for one in told:
            if one.get("content") is None:
                one["content"] = ""
        line = {"messages": messages, "tools": tools, "options": options}
        for variant, source in sources.items():
            def render(messages, source):
                return tokenizer.apply_chat_template(messages, tools=tools, chat_template=source, tokenize=False, **options)

            text = render(told, source)
            for other in (by_rules(told, tools, options, variant), render(told, ours[variant]), render(messages, ours[variant])):
                assert text == other, (index, variant, text, other)
            if variant == "qwen3" or text != line["qwen3"]:
                line[variant] = text
        ids = tokenizer.apply_chat_template(told, tools=tools, tokenize=True, return_dict=False, **options)
        line["ids"] = hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()[:16]
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    (HERE / "templates.jsonl").write_text("".join(lines))


main()
