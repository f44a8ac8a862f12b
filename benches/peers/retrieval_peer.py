"""The peers of benches/retrieval.rs: bm25s and faiss-cpu flat over the same files, by the same callers.

Usage: retrieval_peer.py FOLDER CALLERS THREADS K SECONDS; prints JSON. Needs bm25s, faiss-cpu and numpy.
Callers are played by batches of CALLERS queries, the best case for both libraries, and by single queries.
"""
import json
import sys
import time

import bm25s
import faiss
import numpy as np

folder, callers, threads, k, seconds = sys.argv[1], *map(int, sys.argv[2:])
faiss.omp_set_num_threads(threads)
with open(f"{folder}/corpus.jsonl") as file:
    documents = [json.loads(line)["text"].split() for line in file]
queries = [line.split() for line in open(f"{folder}/queries.txt")]
vectors = np.load(f"{folder}/vectors.npy")
query_vectors = np.load(f"{folder}/queries.npy")

start = time.perf_counter()
words = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
words.index(documents, show_progress=False)
bm25s_build_s = time.perf_counter() - start
del documents
start = time.perf_counter()
flat = faiss.IndexFlatIP(vectors.shape[1])
flat.add(vectors)
faiss_build_s = time.perf_counter() - start


def by_words(at, n, depth):
    return words.retrieve(queries[at : at + n], k=depth, n_threads=threads if n > 1 else 0, show_progress=False)[0]


def by_vectors(at, n, depth):
    return flat.search(query_vectors[at : at + n], depth)[1]


def fused(at, n, depth):
    lists = [by_words(at, n, 100), by_vectors(at, n, 100)]
    answers = []
    for i in range(n):
        scores = {}
        for ranking in lists:
            for place, row in enumerate(ranking[i].tolist()):
                scores[row] = scores.get(row, 0.0) + 1.0 / (61 + place)
        answers.append(sorted(scores, key=lambda row: (-scores[row], row))[:depth])
    return answers


def rate(name, ask, n):
    ask(0, n, k)
    waits, at, cpu, start = [], 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - start < seconds:
        asked = time.perf_counter()
        ask(at, n, k)
        waits.append(time.perf_counter() - asked)
        at = (at + n) % (len(queries) - n)
    elapsed = time.perf_counter() - start
    cpu_ms = (time.process_time() - cpu) * 1e3 / (len(waits) * n)
    p50, p99 = np.percentile(waits, [50, 99]) * 1e3
    return {"name": name, "per_second": len(waits) * n / elapsed, "p50_ms": p50, "p99_ms": p99, "cpu_ms": cpu_ms}


rates = []
for n, how in [(1, "one at a time"), (callers, f"in batches of {callers}")]:
    rates.append(rate(f"peer: bm25s + faiss flat + RRF in Python, {how}", fused, n))
    rates.append(rate(f"peer: bm25s {bm25s.__version__}, {how}", by_words, n))
    rates.append(rate(f"peer: faiss {faiss.__version__} flat, {how}", by_vectors, n))
report = {
    "rates": rates,
    "bm25s_build_s": bm25s_build_s,
    "faiss_build_s": faiss_build_s,
    "bm25s_top10": by_words(0, 200, 10).tolist(),
    "faiss_top10": by_vectors(0, 200, 10).tolist(),
}
print(json.dumps(report))
