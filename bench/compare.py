"""A hundred thousand graded samples compared, against BCa of the same deltas by scipy.

Called without options, ``scipy.stats.bootstrap`` cannot do this: its jackknife alone asks for an
array of n * n numbers, 80 GB. So it gets ``batch``, which bounds that array. The claim is against
a batch of 100, arrays of 80 MB; a batch of 10 is printed beside it, because which one is faster
depends on the machine. It gives an interval only, while ``gatemark compare`` also reads, checks and
pairs both files, draws the sign-flip p-value and bounds the drop.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.measure import Line, gatemark, run

COUNT = 100_000
RESAMPLES = 9_999
SEED = 20_240
PLAIN_BATCH, SMALL_BATCH = 100, 10


def scores(*, graded: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scores of two arms over the same items; most items change a little."""
    rng = np.random.default_rng(SEED)
    base = rng.beta(5, 2, COUNT)
    cand = np.clip(base + rng.normal(0.001, 0.1, COUNT), 0, 1)
    return (base, cand) if graded else ((base > 0.5) * 1.0, (cand > 0.5) * 1.0)


def write_samples(path: Path, values: np.ndarray) -> str:
    """One ``gatemark.sample/1`` line per score."""
    with path.open("w", encoding="utf-8") as stream:
        for place, value in enumerate(values.tolist()):
            row = {
                "schema": "gatemark.sample/1",
                "id": f"item-{place:06d}",
                "input": f"Question {place} of many",
                "target": "yes",
                "output": "yes" if value > 0.5 else "no",
                "scores": {"grade": value},
            }
            stream.write(json.dumps(row) + "\n")
    return str(path)


def lines() -> Iterator[Line]:
    """The statistics alone and the whole command, each in a process of its own."""
    this = [sys.executable, "-m", "bench.compare_deltas"]
    start = run([*this, "nothing", "0"]).seconds
    ours = run([*this, "gatemark", "0"], repeats=2).seconds - start
    whole = {}
    with tempfile.TemporaryDirectory() as name:
        for word, graded in (("graded", True), ("right or wrong", False)):
            base, cand = scores(graded=graded)
            files = (
                write_samples(Path(name) / "base.jsonl", base),
                write_samples(Path(name) / "cand.jsonl", cand),
            )
            cost = run(gatemark("compare", *files, "--json"), repeats=2, ok_codes=(0, 1, 3))
            whole[word] = cost.seconds
            yield Line(f"gatemark compare, {COUNT:,} items, {word}", cost.seconds, "s")
            yield Line(f"gatemark compare, {word}, resident memory", cost.resident_mb, "MB")
    yield Line("gatemark, BCa and sign flips of the deltas", ours, "s")
    small = run([*this, "scipy", str(SMALL_BATCH)]).seconds - start
    plain = run([*this, "scipy", str(PLAIN_BATCH)]).seconds - start
    yield Line(f"scipy BCa of the deltas, batch={PLAIN_BATCH}", plain, "s")
    yield Line(f"scipy BCa of the deltas, batch={SMALL_BATCH}", small, "s")
    for word, seconds in whole.items():
        yield Line(f"scipy / gatemark compare, {word}", plain / seconds, "x", at_least=10)
        yield Line(f"scipy, batch={SMALL_BATCH} / gatemark compare, {word}", small / seconds, "x")
    yield Line("scipy / gatemark, the deltas", plain / ours, "x", at_least=10)
    yield Line(f"scipy, batch={SMALL_BATCH} / gatemark, the deltas", small / ours, "x")
