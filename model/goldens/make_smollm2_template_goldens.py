"""Makes smollm2_template.json: what transformers renders with the template that SmolLM2's GGUF file carries.

    python make_smollm2_template_goldens.py FILE.gguf    # made with transformers 5.24, gguf 0.19
"""

import json
import pathlib
import sys

from gguf import GGUFReader
from transformers.utils.chat_template_utils import render_jinja_template

CONVERSATIONS = [
    [("user", "Hi.")],
    [("system", "Be brief."), ("user", "Hi.")],
    [("user", "Hi."), ("assistant", "Hello.\n"), ("user", "  And?")],
    [("user", ""), ("assistant", ""), ("user", "é字😀\r\n\x00")],
    [("user", "<b>&'\"{{ x }}{% raw %}")],
    [("system", ""), ("system", "again"), ("tool", "42"), ("user", "why")],
    [("assistant", "first")],
]


def main():
    template = GGUFReader(sys.argv[1]).fields["tokenizer.chat_template"].contents()
    made = []
    for pairs in CONVERSATIONS:
        messages = [{"role": role, "content": content} for role, content in pairs]
        for opened in (True, False):
            text = render_jinja_template([messages], chat_template=template, add_generation_prompt=opened)[0][0]
            made.append({"messages": messages, "add_generation_prompt": opened, "text": text})
    path = pathlib.Path(__file__).parent / "smollm2_template.json"
    path.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n")


main()
