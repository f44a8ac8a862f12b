"""Writes metrics.json: random judgements and runs with the values that pytrec_eval (trec_eval's own code) gives.

pip install pytrec-eval-terrier==0.5.11; python3 metrics.py > metrics.json
"""
import json
import random

import pytrec_eval

MEASURES = {"map", "recip_rank", "ndcg", "ndcg_cut.1,5,10", "recall.5,10,100", "P.5,10"}
rng = random.Random(20_26)
qrels, run = {}, {}
for topic in range(40):
    documents = [f"d{i:03}" for i in range(rng.choice([3, 12, 60, 150]))]
    judged = rng.sample(documents, rng.randint(1, min(20, len(documents))))
    # Negative grades, topics without a relevant document, judged documents that are never found.
    grades = [-1, 0, 0, 1, 2, 3] if topic % 8 else [-1, 0]
    qrels[f"q{topic}"] = {d: rng.choice(grades) for d in judged}
    qrels[f"q{topic}"]["missing"] = rng.choice([0, 1] if topic % 8 else [0])
    found = rng.sample(documents, rng.randint(1, len(documents)))
    # Few distinct scores: ties matter. Some differ only beyond single precision.
    run[f"q{topic}"] = {d: rng.choice([0.5, 1.0, 1.0 + 1e-12, 2.25, rng.random()]) for d in found}
run["unjudged"] = {"d000": 1.0}
values = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
print(json.dumps({"qrels": qrels, "run": run, "values": values}, sort_keys=True))
