"""Makes the parquet tables of `rows/`, as Hugging Face's `datasets` and pyarrow write them, small.

    python rows.py             # with pyarrow

`structs`: messages, tools and metadata as structures, with nulls where a message lacks a field; `texts`: all three as JSON text;
`ids`: token rows; `pandas`: masks as fractions, as pandas makes of whole numbers with nulls, and a moment and bytes beside; `bad`:
rows that are wrong in the ways a table can be; `other`: no column of rows; `hostile_nulls` and `hostile_texts`: a few hundred
bytes that unfold to a row of millions of nulls, or of a gigabyte of text.
"""

import datetime
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).parent / "rows"

CALL = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())]))])
MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string()), ("reasoning_content", pa.string()), ("tool_calls", pa.list_(CALL)),
                     ("tool_call_id", pa.string()), ("step_loss_mask", pa.int64())])
PARAMETER = pa.struct([("type", pa.string())])
TOOL = pa.struct([("type", pa.string()), ("function", pa.struct([("name", pa.string()), ("parameters", pa.struct([
    ("type", pa.string()), ("properties", pa.struct([("query", PARAMETER), ("docid", PARAMETER)]))]))]))])
METADATA = pa.struct([("source", pa.string()), ("question_hash", pa.string()), ("reward", pa.float64()), ("round", pa.int32())])

ROWS = [
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Who? é😀"},
                  {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [
                      {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query": "x"}'}}]},
                  {"role": "tool", "content": "o", "tool_call_id": "c1"}, {"role": "assistant", "content": "Ada.", "step_loss_mask": 1},
                  {"role": "assistant", "content": "More.", "step_loss_mask": 0}],
     "tools": [{"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}},
               {"type": "function", "function": {"name": "open_page", "parameters": {"type": "object", "properties": {"docid": {"type": "string"}}}}}],
     "metadata": {"source": "core", "question_hash": "ab", "reward": 0.1, "round": 0}, "uid": 7},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "tools": None, "metadata": None, "uid": 8},
    {"messages": [{"role": "user", "content": "q2"}, {"role": "assistant", "content": "a2"}], "tools": [], "metadata": {"source": "gate"}, "uid": 9},
]


def write(name, columns, schema=None, **options):
    pq.write_table(pa.table(columns, schema=schema), OUT / f"{name}.parquet", **options)


def column(name, rows=ROWS):
    return [row[name] for row in rows]


def main():
    OUT.mkdir(exist_ok=True)
    schema = pa.schema([("messages", pa.list_(MESSAGE)), ("tools", pa.list_(TOOL)), ("metadata", METADATA), ("uid", pa.int64())])
    write("structs", {name: column(name) for name in schema.names}, schema, row_group_size=2)
    texts = {name: [None if value is None else json.dumps(value, ensure_ascii=False) for value in column(name)] for name in ("messages", "tools", "metadata")}
    write("texts", texts, compression="zstd")
    span = pa.struct([("actor", pa.string()), ("turn", pa.int32()), ("kind", pa.string()), ("ids", pa.list_(pa.int64())),
                      ("logprobs", pa.list_(pa.float32())), ("masked", pa.bool_()), ("why", pa.string())])
    spans = [{"actor": "worker/0", "turn": 0, "kind": "sampled", "ids": [7, 8], "logprobs": [-0.1, -2.5], "masked": False, "why": "sampled"},
             {"actor": "environment", "turn": 1, "kind": "injected", "ids": [9], "logprobs": None, "masked": True, "why": "injected"}]
    write("ids", {"prompt_ids": [[1, 2, 3]], "spans": [spans]},
          pa.schema([("prompt_ids", pa.list_(pa.int32())), ("spans", pa.list_(span))]), compression="gzip")
    fraction = pa.struct([("role", pa.string()), ("content", pa.string()), ("step_loss_mask", pa.float64())])
    write("pandas", {"messages": [[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "step_loss_mask": 0.0},
                                   {"role": "assistant", "content": "b", "step_loss_mask": 1.0}]],
                     "when": [datetime.datetime(2026, 9, 15, 12, 0, 0)], "raw": [b"bytes"]},
          pa.schema([("messages", pa.list_(fraction)), ("when", pa.timestamp("ms")), ("raw", pa.binary())]))
    good = json.dumps(ROWS[1]["messages"])
    message = '[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"%s}]'
    bad = [good, "{", None, "[]", '[{"role": "narrator", "content": "a"}]', message % ', "step_los_mask": 0', message % ', "step_loss_mask": NaN',
           r'[{"role": "user", "content": "\ud83d"}]', message % ', "step_loss_mask": 0', "7", good]
    rewards = [0.5] * 9 + [0.5, float("nan")]
    write("bad", {"messages": bad, "reward": rewards})
    write("other", {"sentence": ["a"], "label": [1]})
    short = pa.struct([("role", pa.string()), ("content", pa.string())])
    many = pa.array([[None] * (4 << 20)], pa.list_(short))
    write("hostile_nulls", {"messages": many}, compression="zstd", write_statistics=False)
    long = pa.array([[{"role": "user", "content": "x" * (1 << 20)}] * 1024], pa.list_(short))
    write("hostile_texts", {"messages": long}, compression="zstd", write_statistics=False)
    for path in sorted(OUT.iterdir()):
        print(path.name, path.stat().st_size)


main()
