"""Writes foldagent.json: what FoldAgent's own code makes of generated inputs.

    git clone https://github.com/sunnweiwei/FoldAgent && git -C FoldAgent checkout cc09646
    python3 foldagent.py FoldAgent > foldagent.json

Only the functions under test are loaded, by name, from the checkout; nothing of it is kept here. Fixed
sentences are replaced by tags such as {REMINDER}, since ours have a wording of their own.
"""

import ast, asyncio, collections, contextlib, copy, difflib, io, json, pathlib, random, re, sys, types, unicodedata

CHECKOUT = pathlib.Path(sys.argv[1])
RANDOM = random.Random(915)


def load(path, names):
    tree = ast.parse((CHECKOUT / path).read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", None) in names]
    space = {name: sys.modules[name] for name in ("ast", "asyncio", "collections", "copy", "difflib", "json", "re", "unicodedata")}
    space |= {"Counter": collections.Counter}
    exec(compile(tree, path, "exec"), space)
    return types.SimpleNamespace(**{name: space[name] for name in names})


env = load("envs/local_search.py", [
    "em_score", "relaxed_em", "parse_judge_response", "keep_first_n_words", "extract_json_tool", "extract_fn_call",
    "extract_q_dict", "LocalSearch",
])
main = load("agents/fold_agent.py", ["extract_fn_call", "clean_response"])


def quiet(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


def joined(pieces, most):
    return "".join(RANDOM.choice(pieces) for _ in range(RANDOM.randint(1, most)))


def texts(arguments):
    """Values as text: strings as they are, null left out, anything else as JSON."""
    pairs = ((key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")))
             for key, value in arguments.items() if value is not None)
    return dict(pairs)


# Readings.

CALL = "<function=search>\n<parameter=query>a</parameter>\n</function>"
PIECES = [
    CALL, CALL + "\n", "<function=search>", "<function=open_page>\n", "</function>", "<parameter=query>", "<parameter=docid>", "</parameter>",
    "a", " b ", "\n", "\n", "\n\n", "\n\n\n", "\n\n\n\n", "\r\n", "  ", "\t", "<think>", "</think>", "<[m]>", "<[", "]>", "x\n", "é",
    "\u2028", "\x1c", "\ufeff", "<function=\"q\">", "<function=\n>", "<function=>", "<parameter=>", "<parameter=k>v</parameter>",
]
JSON_PIECES = PIECES + [
    "<tool_call>", "</tool_call>", "<answer>", "</answer>", "```json\n", "```", '{"name": "search", "arguments": {"query": ["a", "b"]}}',
    '{"name": "search", "arguments": {"query": "ab"}}', "{'name': 'visit', 'arguments': {'url': ['u', \"v\"]}}",
    '{"name": "finish", "arguments": {"answer": 42, "x": null, "y": true}}', '{"name": "x", "arguments": []}', '{"name": "x"}', '{"a": 1}',
    "{'name': 'f', 'arguments': {'k': 'a' 'b', 'n': -3, 't': (1,), 'e': '\\x41\\n'}}", "[1]", "{", "}",
]
BODIES = JSON_PIECES[-14:]


def tool_call():
    return "<tool_call>" + joined(["", "\n", " "], 2) + joined(BODIES, 2) + joined(["", "\n"], 2) + "</tool_call>"


def reading(text):
    try:
        calls = [[call["function"], texts(call["arguments"])] for call in quiet(env.extract_fn_call, text) or []]
    except Exception:  # What makes the original fail has no answer to compare with.
        return None
    last = main.extract_fn_call(text)
    return {
        "text": text,
        "calls": calls,
        "last": last and [last["function"], last["arguments"]],
        "part": main.clean_response(text),
    }


inputs = [joined(PIECES, 14) for _ in range(220)] + [joined(JSON_PIECES, 10) for _ in range(80)]
inputs += [joined(["", "\n", CALL, "text "], 3) + tool_call() + joined(["", "\n", CALL], 2) for _ in range(80)]
readings = [found for found in map(reading, inputs) if found]

# Answers.

WORDS = [
    "the", "of", "a", "&", "John", "Johnathan", "Johnny", "Jon", "Smith", "Q.", "March", "1984", "1985", "198", "Café", "cafe", "O'Neil", "oneil",
    "(France)", "(", ")", "Spider-Man", "spiderman", "“War”", "War", "art", "x/y", "—", "ﬁne", "İ", "ß", "Éire", "ÉIRE", ":", "٢٠٢٤", "",
]


def phrase():
    return " ".join(RANDOM.choice(WORDS) for _ in range(RANDOM.randint(1, 4)))


def changed(text):
    words = text.split(" ")
    for _ in range(RANDOM.randint(0, 2)):
        words[RANDOM.randrange(len(words))] = RANDOM.choice(WORDS)
    RANDOM.random() < 0.3 and RANDOM.shuffle(words)
    return " ".join(words)


def pair(_):
    gold = phrase()
    answer = changed(gold) if RANDOM.random() < 0.7 else phrase()
    return {"gold": gold, "answer": answer, "em": env.em_score(gold, answer), "relaxed": env.relaxed_em(gold, answer)}


pairs = [pair(index) for index in range(400)]

# Judgements.

JUDGE_PIECES = [
    "correct: ", "correct:", "**correct:** ", "**correct**: ", "Correct: ", "incorrect: ", "yes", "no", "Yes", "NO", "'yes'", "**yes**", "\n", "\n", " ",
    "confidence: ", "**confidence:** ", "**confidence**: ", "90", "101", "72.5%", "N/A", "extracted_final_answer: ", "**extracted_final_answer:** ",
    "**extracted_final_answer**: ", "Paris", "None", "reasoning: ", "**reasoning:** ", "**reasoning**: ", "because", "\t",
]


def judgement(_):
    text = joined(JUDGE_PIECES, 12)
    found = env.parse_judge_response(text)
    return {"text": text} | {key: found[key] for key in ("correct", "extracted_final_answer", "reasoning", "confidence")}


judgements = [judgement(index) for index in range(300)]

# Episodes.

LENGTHS = [1, 3, 127, 128, 129, 511, 512, 513]
PAGES = {str(number): {"docid": str(number), "url": f"u/{number}", "text": f"{'wxyz'[number % 4]} \n" * RANDOM.choice(LENGTHS)} for number in range(60)}
PAGES["0"]["text"] = "v\n" * 4095
PAGES["1"]["text"] = "v\n" * 4096
PAGES["2"]["text"] = "v\n" * 4097


class Client:
    """Answers like the search server, and keeps what it answered."""

    async def search(self, query, k):
        docids = RANDOM.sample(sorted(PAGES), min(k, RANDOM.choice([0, 2, 5, 50])))
        self.log.append({"search": query, "docids": docids})
        return [dict(PAGES[docid]) for docid in docids]

    async def open(self, url, docid):
        found = PAGES.get(docid) if docid else next((page for page in PAGES.values() if page["url"] == url), None)
        self.log.append({"open": [docid, url], "docid": found and found["docid"]})
        return [dict(found) if found else {"docid": docid, "url": url, "text": "{NO_SUCH_PAGE}"}]


def environment(label, must_search):
    space = object.__new__(env.LocalSearch)
    plain = dict(client=Client(), stats=collections.Counter(), visited_pages=set(), label_answer=label, predicted_answer=None, question="q",
                 must_search=must_search, double_check=False, donotgiveup=False, is_finish=False)
    space.__dict__.update(plain)
    return space


def act(space, response):
    space.client.log = []
    with contextlib.redirect_stdout(io.StringIO()):
        return asyncio.run(space.run_action(response))


def call(name, **arguments):
    parameters = "".join(f"<parameter={key}>{value}</parameter>\n" for key, value in arguments.items())
    return f"<function={name}>\n{parameters}</function>\n"


def sentences():
    """The fixed sentences, found by provoking each."""
    find = lambda response, label="x", must=False: act(environment(label, must), response)["observation"]
    reminder = find(call("search", query="")).removeprefix(find(call("search", query="")).split("\n")[0]).strip()
    without = lambda text: text.removesuffix(reminder).strip()
    return {
        "REMINDER": reminder,
        "NO_CALL": find(""),
        "NO_QUERY": without(find(call("search", query=""))),
        "NO_PAGE": without(find(call("open_page"))),
        "BLANK_ANSWER": find(call("finish", answer=" ")),
        "SEARCH_FIRST": find(call("finish", answer="x"), must=True),
    }


def tagged(text, known):
    for tag, sentence in known.items():
        text = text.replace(sentence, "{" + tag + "}")
    text = re.sub(r"\(This page was already seen[^)]*\)", "{SEEN}", text)
    text = re.sub(r'\[Error\] The function "([^"\n]*)" is not supported\.', r"{UNSUPPORTED \1}", text)
    return re.sub(r"Answer submission failed\. The answer is missing the following questions: ([^.]*)\..*", r"{MISSING \1}", text, flags=re.S)


def runs(text):
    """Long runs of one word in short: `{*w *512}`."""
    return re.sub(r"(\w\s{1,2})\1{9,}", lambda run: f"{{*{run[1]}*{len(run[0]) // len(run[1])}}}", text)


def step():
    topk = RANDOM.choice([None, None, "1", "3", "0", " 3", "12", "x"])
    more = {} if topk is None else {"topk": topk}
    return RANDOM.choice([
        lambda: call("search", query=RANDOM.choice(["a", "b c", " d ", ""]), **more),
        lambda: call("search", query="a", **more),
        lambda: call("search"),
        lambda: call("open_page", docid=RANDOM.choice(["0", "1", "2", "7", " 7", "none"])),
        lambda: call("open_page", url=RANDOM.choice(["u/3", "u"])),
        lambda: call("open_page", docid="5", url="u/6"),
        lambda: call("open_page"),
        lambda: call("branch", prompt="p"),
    ])()


def last_step():
    return call("finish", answer=RANDOM.choice(["x", " X ", "y", " ", "<q1>x</q1>", "<q1>x</q1> <q2> y</q2>"]), explanation="e", confidence="80")


def episode(_):
    label, must = RANDOM.choice(["x", "x", "<q1>x</q1><q2>y</q2>"]), RANDOM.random() < 0.4
    space = environment(label, must)
    turns = []
    for _ in range(RANDOM.randint(1, 4)):
        steps = [step() for _ in range(RANDOM.choice([0, 1, 1, 2, 3]))]
        RANDOM.random() < 0.4 and steps.insert(RANDOM.randint(0, len(steps)), last_step())
        response = "".join(steps)
        result = act(space, response)
        turns.append({
            "response": response,
            "lookups": space.client.log,
            "observation": runs(tagged(result["observation"], KNOWN)) if "observation" in result else None,
            "answer": space.predicted_answer[0] if "action" in result else None,
        })
        if "action" in result:
            break
    return {"label": label, "must_search": must, "turns": turns}


KNOWN = sentences()
episodes = [episode(index) for index in range(60)]
golden = {"readings": readings, "pairs": pairs, "judgements": judgements, "pages": {docid: runs(page["text"]) for docid, page in PAGES.items()}, "episodes": episodes}
json.dump(golden, sys.stdout, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
print()
