"""Checks a model server through LiteLLM: pip install litellm; python litellm_client.py URL MODEL [--mock]. URL ends in /v1.
With --mock the server is the example `mock_model_server`, whose answers are known.
"""

import argparse
import os
import sys

# Nobody but the server is asked.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import litellm


def expect(is_right, what):
    if not is_right:
        raise AssertionError(what)


def user(text):
    return [{"role": "user", "content": text}]


def chat(ask):
    answer = litellm.completion(messages=user("Say hi."), max_tokens=4, **ask)
    expect(answer.choices[0].finish_reason in ("stop", "length"), answer)
    expect(answer.usage.completion_tokens <= 4, answer.usage)


def stream(ask):
    options = {"include_usage": True}
    chunks = list(litellm.completion(messages=user("Say hi."), max_tokens=4, stream=True, stream_options=options, **ask))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    expect(text, chunks)
    expect(any(getattr(chunk, "usage", None) for chunk in chunks), chunks)


def errors(ask):
    try:
        litellm.completion(messages=user("a"), temperature=9, **ask)
    except litellm.BadRequestError as told:
        expect("temperature" in str(told), told)
    else:
        raise AssertionError("a BadRequestError was expected")


def tools(ask):
    offered = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    said = 'say:<tool_call>{"name": "f", "arguments": {"q": 1}}</tool_call>'
    answer = litellm.completion(messages=user(said), tools=offered, **ask)
    expect(answer.choices[0].message.tool_calls[0].function.arguments == '{"q":1}', answer)
    expect(answer.choices[0].finish_reason == "tool_calls", answer)


def busy(ask):
    try:
        litellm.completion(messages=user("busy"), **ask)
    except litellm.RateLimitError as told:
        expect("queue is full" in str(told), told)
    else:
        raise AssertionError("a RateLimitError was expected")


def long(ask):
    try:
        litellm.completion(messages=user("long"), **ask)
    except litellm.ContextWindowExceededError as told:
        expect("2000" in str(told), told)
    else:
        raise AssertionError("a ContextWindowExceededError was expected")


def embeddings(ask):
    answer = litellm.embedding(input=["ab", "c"], encoding_format="float", **ask)
    expect(answer.data[0]["embedding"] == [2.0, 97 / 256, 0.5, -1.0], answer)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url")
    arguments.add_argument("model")
    arguments.add_argument("--mock", action="store_true")
    given = arguments.parse_args()
    litellm.suppress_debug_info = True
    ask = dict(model=f"openai/{given.model}", api_base=given.url, api_key="none", max_retries=0, num_retries=0)
    print(f"litellm against {given.url}, model {given.model}")
    failed = 0
    for function in [chat, stream, errors] + ([tools, busy, long, embeddings] if given.mock else []):
        try:
            function(ask)
            print(f"  ok      {function.__name__}")
        except Exception as error:
            failed += 1
            print(f"  FAILED  {function.__name__}: {type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
