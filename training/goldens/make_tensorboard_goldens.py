"""Goldens of event files, and a look at a file that was written here, both by TensorBoard's own classes.

    python make_tensorboard_goldens.py make OUT     records as TensorBoard's RecordWriter and protocol buffers make them
    python make_tensorboard_goldens.py read FOLDER  what TensorBoard's reader finds in a folder of event files, as JSON

Needs tensorboard.
"""

import io
import json
import pathlib
import sys

import tensorboard
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

CASES = [
    dict(wall_secs=1700000000.25, step=0, scalars=None),
    dict(wall_secs=0.0, step=0, scalars=None),
    dict(wall_secs=1700000001.5, step=1, scalars=[["train/loss", 1.25]]),
    dict(wall_secs=1700000002.0, step=0, scalars=[["train/loss", 0.0], ["train/lr", 9.9999986e-06]]),
    dict(wall_secs=1700000003.0, step=1366, scalars=[["train/grad_norm", 0.5], ["é", -3.0], ["x" * 200, 1e30]]),
    dict(wall_secs=1700000004.0, step=2**40, scalars=[]),
]


def record(case):
    event = event_pb2.Event(wall_time=case["wall_secs"])
    if case["scalars"] is None:
        event.file_version = "brain.Event:2"
    else:
        event.step = case["step"]
        values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in case["scalars"]]
        event.summary.CopyFrom(summary_pb2.Summary(value=values))
    out = io.BytesIO()
    RecordWriter(out).write(event.SerializeToString())
    return out.getvalue().hex()


def make(out):
    events = [dict(case, record=record(case)) for case in CASES]
    golden = dict(versions={"tensorboard": tensorboard.__version__}, events=events)
    pathlib.Path(out).write_text(json.dumps(golden, indent=1))


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(folder, size_guidance={"scalars": 0})
    found.Reload()
    scalars = {tag: [[e.step, e.wall_time, e.value] for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
    print(json.dumps(dict(file_version=found.file_version, scalars=scalars)))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"make": make, "read": read}[command](*arguments)
