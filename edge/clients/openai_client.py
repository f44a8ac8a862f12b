"""Checks a model server with the official `openai` package: pip install openai; python openai_client.py URL MODEL [--mock]
[--key KEY]. URL ends in /v1. With --mock the server is the example `mock_model_server`, whose answers are known.
"""

import argparse
import sys

import openai

CHECKS = []


def check(function):
    CHECKS.append((function, False))
    return function


def mock_only(function):
    CHECKS.append((function, True))
    return function


def expect(is_right, what):
    if not is_right:
        raise AssertionError(what)


def user(text):
    return [{"role": "user", "content": text}]


@check
def chat(client, model):
    answer = client.chat.completions.create(model=model, messages=user("Say hi."), max_tokens=4, temperature=0, seed=1)
    choice = answer.choices[0]
    expect(choice.message.role == "assistant" and choice.message.content is not None, choice)
    expect(choice.finish_reason in ("stop", "length"), choice)
    expect(answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens, answer.usage)
    expect(answer.usage.completion_tokens <= 4, answer.usage)


@check
def chat_stream(client, model):
    stream = client.chat.completions.create(
        model=model, messages=user("Say hi."), max_tokens=4, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    expect(chunks[0].choices[0].delta.role == "assistant", chunks[0])
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    expect(len(reasons) == 1, reasons)
    expect(chunks[-1].choices == [] and chunks[-1].usage.completion_tokens <= 4, chunks[-1])


@check
def whole_and_stream_are_the_same(client, model):
    ask = dict(model=model, messages=user("Count to three."), max_tokens=8, temperature=0, seed=1)
    whole = client.chat.completions.create(**ask).choices[0].message.content
    with client.chat.completions.create(stream=True, **ask) as stream:
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    expect(whole == streamed, (whole, streamed))


@check
def choices(client, model):
    answer = client.chat.completions.create(model=model, messages=user("Say hi."), max_tokens=2, n=3, seed=1)
    expect([choice.index for choice in answer.choices] == [0, 1, 2], answer)


@check
def stop_strings(client, model):
    ask = dict(model=model, messages=user("Count to three."), max_tokens=24, temperature=0, seed=1)
    whole = client.chat.completions.create(**ask).choices[0].message.content
    stop = whole[len(whole) // 2 :][:3]
    expect(stop, "there is something to stop at")
    choice = client.chat.completions.create(stop=[stop], **ask).choices[0]
    expect(choice.finish_reason == "stop" and choice.message.content == whole[: whole.index(stop)], (whole, choice))
    with client.chat.completions.create(stop=stop, stream=True, **ask) as stream:
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    expect(streamed == choice.message.content, (streamed, choice))


@check
def logprobs(client, model):
    answer = client.chat.completions.create(
        model=model, messages=user("Say hi."), max_tokens=2, logprobs=True, top_logprobs=2
    )
    content = answer.choices[0].logprobs.content
    expect(len(content) == answer.usage.completion_tokens and content[0].logprob <= 0, content)
    expect(len(content[0].top_logprobs) == 2, content[0])


@check
def completions(client, model):
    answer = client.completions.create(model=model, prompt=["One", "Two"], max_tokens=2, logprobs=1, temperature=0)
    expect([choice.index for choice in answer.choices] == [0, 1], answer)
    expect(len(answer.choices[0].logprobs.tokens) == 2, answer.choices[0].logprobs)
    stream = client.completions.create(model=model, prompt="One", max_tokens=2, stream=True)
    expect(list(stream)[-1].choices[0].finish_reason in ("stop", "length"), "a stream of completions has a reason")


@check
def cancelled_stream(client, model):
    stream = client.chat.completions.create(model=model, messages=user("Count to a hundred."), stream=True)
    next(iter(stream))
    stream.close()


@check
def models(client, model):
    expect(client.models.retrieve(model).id == model, "the model is told by its name")
    expect(model in [one.id for one in client.models.list()], "the model is listed")


@check
def errors(client, model):
    for error, ask, param in [
        (openai.BadRequestError, dict(model=model, messages=user("a"), temperature=9), "temperature"),
        (openai.BadRequestError, dict(model=model, messages=[]), "messages"),
        (openai.NotFoundError, dict(model="no such model", messages=user("a")), "model"),
    ]:
        try:
            client.chat.completions.create(**ask)
        except error as told:
            expect(told.param == param and told.type and param in told.message, told)
        else:
            raise AssertionError(f"{error} was expected")


@mock_only
def tools(client, model):
    said = 'say:Look.<tool_call>{"name": "f", "arguments": {"q": 1}}</tool_call>'
    offered = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    answer = client.chat.completions.create(model=model, messages=user(said), tools=offered)
    choice = answer.choices[0]
    expect(choice.finish_reason == "tool_calls" and choice.message.content == "Look.", choice)
    expect(choice.message.tool_calls[0].function.arguments == '{"q":1}', choice)
    with client.chat.completions.stream(model=model, messages=user(said), tools=offered) as stream:
        final = stream.get_final_completion()
    expect(final.choices[0].message.tool_calls[0].function.name == "f", final)
    call = choice.message.model_dump(exclude_none=True)
    result = {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "say:found"}
    answer = client.chat.completions.create(model=model, messages=user(said) + [call, result], tools=offered)
    expect(answer.choices[0].message.content == "found", answer)


@mock_only
def embeddings(client, model):
    # The package asks for base64 unless told otherwise.
    answer = client.embeddings.create(model=model, input=["ab", "c"])
    expect(answer.data[0].embedding == [2.0, 97 / 256, 0.5, -1.0], answer.data[0])
    plain = client.embeddings.create(model=model, input=["ab", "c"], encoding_format="float")
    expect(plain.data[0].embedding == answer.data[0].embedding and plain.usage.total_tokens == 3, plain)


@mock_only
def reasoning(client, model):
    answer = client.chat.completions.create(
        model=model, messages=user("say:<think>\nhm\n</think>\n\nyes"), extra_body={"separate_reasoning": True}
    )
    message = answer.choices[0].message
    expect(message.content == "yes" and message.reasoning_content == "hm", message)


@mock_only
def errors_of_the_model(client, model):
    for text, error in [("busy", openai.RateLimitError), ("fail", openai.InternalServerError), ("long", openai.BadRequestError)]:
        try:
            client.chat.completions.create(model=model, messages=user(text))
        except error as told:
            expect(told.code in ("rate_limit_exceeded", "model_failed", "context_length_exceeded"), told)
            expect(text != "busy" or told.response.headers["retry-after"] == "7", told.response.headers)
        else:
            raise AssertionError(f"{error} was expected")
    stream = client.chat.completions.create(model=model, messages=user("break"), stream=True)
    try:
        list(stream)
    except openai.APIError as told:
        expect("the device went away" in told.message, told)
    else:
        raise AssertionError("an error amid a stream was expected")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url")
    arguments.add_argument("model")
    arguments.add_argument("--mock", action="store_true")
    arguments.add_argument("--key", default="none", help="the server's token, where it has one; then a wrong one is tried too")
    given = arguments.parse_args()
    client = openai.OpenAI(base_url=given.url, api_key=given.key, max_retries=0, timeout=120)
    print(f"openai {openai.__version__} against {given.url}, model {given.model}")
    failed = 0
    for function, needs_mock in CHECKS:
        if needs_mock and not given.mock:
            continue
        try:
            function(client, given.model)
            print(f"  ok      {function.__name__}")
        except Exception as error:
            failed += 1
            print(f"  FAILED  {function.__name__}: {type(error).__name__}: {error}")
    if given.key != "none":
        try:
            openai.OpenAI(base_url=given.url, api_key="wrong", max_retries=0).models.list()
            failed += 1
            print("  FAILED  authentication: a wrong key was taken")
        except openai.AuthenticationError:
            print("  ok      authentication")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
