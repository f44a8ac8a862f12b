"""Writes foldagent.parquet beside this file: a small table in the published form, with invented questions.

Made with pyarrow 26.0.1: `pip install pyarrow && python make_foldagent.py`.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SOURCES = ["bc_test_easy", "bc_test_meduim", "bc_test_hard", "bc_train"]

rows = [
    {
        "data_source": source,
        "ability": "LocalSearch",
        "prompt": [{"role": "user", "content": f"Question {at}"}],
        "reward_model": {"style": "rule", "ground_truth": f"answer {at}" if at != 2 else "another answer"},
        "extra_info": {
            "query": f"Which town does question {at} mean?",
            "answer": f"answer {at}",
            "instance_id": f"0{at}",
            "workflow": None,
        },
    }
    for at, source in enumerate(SOURCES)
]

pq.write_table(pa.Table.from_pylist(rows), Path(__file__).with_name("foldagent.parquet"), compression="zstd")
