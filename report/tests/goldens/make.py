"""Writes statistics.json from independent implementations: scipy, statsmodels, scikit-learn, NumPy, exact integers.

    pip install scipy==1.17.1 statsmodels==0.15.0 scikit-learn==1.9.1 numpy==2.4.6
    python make.py > statistics.json

No figure here comes from the Rust code; tests/report/goldens.rs compares the two.
"""

import json
import math
import random
import re
from fractions import Fraction

import numpy as np
from scipy import optimize, stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

rng = random.Random(42)


def wilson():
    cases = [(0, 1), (1, 1), (83, 150), (108, 150), (43, 50), (49, 50), (11, 50), (0, 50), (50, 50), (1, 1_000_000)]
    cases += [(rng.randint(0, n), n) for n in (2, 3, 17, 680, 830, 99_999)]
    return [[k, n, *map(float, proportion_confint(k, n, alpha=0.05, method="wilson"))] for k, n in cases]


def exact_mcnemar(b, c):
    """Exact integers: no rounding before the last division."""
    n, k = b + c, min(b, c)
    if b == c:
        return Fraction(1)
    return min(Fraction(1), Fraction(2 * sum(math.comb(n, i) for i in range(k + 1)), 2**n))


def log10_fraction(value):
    return math.log10(value.numerator >> max(0, value.numerator.bit_length() - 64)) + max(
        0, value.numerator.bit_length() - 64
    ) * math.log10(2) - (
        math.log10(value.denominator >> max(0, value.denominator.bit_length() - 64))
        + max(0, value.denominator.bit_length() - 64) * math.log10(2)
    )


def mcnemar_cases():
    small = [(31, 6), (0, 0), (1, 0), (0, 1), (5, 5), (6, 5), (0, 20), (12, 30), (100, 60), (700, 900), (3000, 2000)]
    rows = []
    for b, c in small:
        exact = exact_mcnemar(b, c)
        library = mcnemar([[0, c], [b, 0]], exact=True).pvalue if b + c else 1.0
        assert abs(float(exact) - float(library)) <= 1e-9 * float(exact) + 1e-300, (b, c, float(exact), library)
        rows.append([b, c, float(exact), log10_fraction(exact)])
    for b, c in [(501_000, 499_000), (500_500, 499_500), (250_000, 251_000)]:
        tail = stats.binom.logcdf(min(b, c), b + c, 0.5)
        rows.append([b, c, 2 * math.exp(tail), (tail + math.log(2)) / math.log(10)])
    return rows


def detectable():
    za, zb = stats.norm.ppf(0.975), stats.norm.ppf(0.8)
    rows = []
    for n, psi in [(150, 37 / 150), (150, 0.1), (50, 0.4), (830, 0.25), (100_000, 0.01)]:
        f = lambda d: n * d * d - (za * math.sqrt(psi) + zb * math.sqrt(max(psi - d * d, 0))) ** 2
        rows.append([n, psi, optimize.brentq(f, 1e-9, psi, xtol=1e-14)])
    return rows


def bootstrap():
    """The bootstrap distribution itself: the sum of n draws from {-1, 0, 1} by repeated convolution."""
    rows = []
    for improved, regressed, same in [(31, 6, 113), (4, 3, 43), (10, 10, 30)]:
        n = improved + regressed + same
        step = np.array([regressed, same, improved]) / n
        mass = np.array([1.0])
        for _ in range(n):
            mass = np.convolve(mass, step)
        cdf = np.cumsum(mass)
        low, high = (int(np.searchsorted(cdf, q)) - n for q in (0.025, 0.975))
        rows.append([improved, regressed, same, low / n, high / n])
    return rows


def pass_at_k():
    cases = [(n, c, k) for n in (1, 2, 5, 10, 64) for c in {0, 1, n // 2, n} for k in {1, min(2, n), n}]
    return [[n, c, k, float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))] for n, c, k in sorted(cases)]


def kappa():
    rows = []
    for matrix in [[[80, 7], [3, 60]], [[1, 0], [0, 1]], [[0, 5], [5, 0]], [[45, 15], [25, 15]]]:
        a = [i for i in range(2) for j in range(2) for _ in range(matrix[i][j])]
        b = [j for i in range(2) for j in range(2) for _ in range(matrix[i][j])]
        rows.append([matrix, float(cohen_kappa_score(a, b))])
    return rows


def percentiles():
    rows = []
    for n in (1, 2, 5, 100, 1001):
        values = sorted(rng.randint(0, 10_000) for _ in range(n))
        for q in (0.5, 0.9, 0.95, 0.99):
            rows.append([
                values,
                q,
                int(np.quantile(values, q, method="inverted_cdf")),
                float(np.quantile(values, q, method="linear")),
            ])
    return rows


def calibration():
    rows = []
    for n in (0, 37, 99, 100, 150, 199, 200, 257, 830):
        # Distinct confidences, so that the published figure does not hang on how a sort treats ties.
        confidences = [100 * x / 10_000 for x in rng.sample(range(10_001), n)]
        correct = [rng.random() < 0.2 + 0.6 * c / 100 for c in confidences]
        order = np.argsort(confidences)
        conf, right = np.array(confidences)[order] / 100, np.array(correct, dtype=float)[order]
        edges = [(100 * i, 100 * (i + 1)) for i in range(n // 100)][:-1]
        error = sum((hi - lo) / n * (conf[lo:hi].mean() - right[lo:hi].mean()) ** 2 for lo, hi in edges)
        bins = min(10, n)
        cuts = [i * n // bins for i in range(bins + 1)] if n else [0]
        squares = sum(
            (hi - lo) / n * (conf[lo:hi].mean() - right[lo:hi].mean()) ** 2 for lo, hi in zip(cuts, cuts[1:])
        )
        rows.append({
            "confidences": confidences,
            "correct": correct,
            "published": 100 * math.sqrt(error),
            "corrected": 100 * math.sqrt(squares) if n else None,
        })
    return rows


def citations():
    texts = [
        "In [2019] … [12, see p. 3] 【45†L1-L3】",
        "[1][2] [3,4]【5】[a6b7]",
        "[8 [9] 10] [[11]] 【12【13】14】",
        "[\n15\n] ] [ 16 no end",
        "",
    ]
    rows = []
    for text in texts:
        inner = re.findall(r"\[([^\[\]]*)\]", text) + re.findall("【([^【】]*)】", text)
        rows.append([text, sorted({digits for part in inner for digits in re.findall("[0-9]+", part)})])
    return rows


print(json.dumps({
    "wilson": wilson(),
    "mcnemar": mcnemar_cases(),
    "detectable": detectable(),
    "bootstrap": bootstrap(),
    "pass_at_k": pass_at_k(),
    "kappa": kappa(),
    "percentiles": percentiles(),
    "calibration": calibration(),
    "citations": citations(),
}, ensure_ascii=False, indent=None, separators=(",", ":")).replace("],[", "],\n["))
