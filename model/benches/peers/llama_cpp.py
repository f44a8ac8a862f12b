"""llama.cpp's speed on a GGUF file, as its server reports it: python llama_cpp.py MODEL THREADS [BATCH].

Needs the package xllamacpp (llama.cpp's own server in a Python module). Prints one JSON object: tokens a second of decoding
one sequence behind 128 tokens, and of a prompt of 512 tokens; each the best of three.
"""

import json
import sys
import urllib.request

import xllamacpp

model, threads = sys.argv[1], int(sys.argv[2])
parameters = xllamacpp.CommonParams()
parameters.model.path = model
parameters.n_ctx = 2048
parameters.n_parallel = 1
parameters.hostnames = ["127.0.0.1"]
parameters.port = 18099
parameters.cpuparams.n_threads = threads
parameters.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(parameters)


def timings(prompt, made, salt):
    body = {
        "prompt": [(7 + i * 31 + salt) % 1000 for i in range(prompt)],
        "n_predict": made,
        "cache_prompt": False,
        "ignore_eos": True,
        "temperature": 0,
    }
    request = urllib.request.Request(
        server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["timings"]


decode = max(timings(128, 96, salt)["predicted_per_second"] for salt in range(3))
prefill = max(timings(512, 1, salt)["prompt_per_second"] for salt in range(3))
print(json.dumps({"name": "llama.cpp (xllamacpp)", "decode": decode, "prefill": prefill}), flush=True)
