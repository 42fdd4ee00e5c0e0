"""A hundred thousand windows scored, against scipy's paired BCa of the same weighted mean.

Called without options, ``scipy.stats.bootstrap`` cannot do this: its jackknife alone asks for an
array of n * n numbers, 80 GB. So it gets ``batch``, which bounds that array; a batch of 10 is the
fastest of those tried. It gives an interval only, while ``gatemark score overhead`` also reads both
files, proves that every window pairs, and draws the tails.
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
SEED = 31_007
BATCH = 10
MEMORY_MB = 500


def windows(count: int = COUNT) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, bare losses and guarded losses; the guards cost about half a percent."""
    rng = np.random.default_rng(SEED)
    tokens = rng.integers(200, 513, count)
    bare = rng.gamma(60, 0.04, count)
    return tokens, bare, bare + rng.normal(0.005, 0.02, count)


def write_arms(folder: Path) -> tuple[str, str]:
    """Two ``gatemark.arm/1`` files."""
    tokens, bare, guarded = windows()
    paths = []
    for arm, losses in (("bare", bare), ("guarded", guarded)):
        meta = {
            "record_type": "arm_meta",
            "arm": arm,
            "metric_kind": "ppl_causal",
            "seeds": {"python": 1, "numpy": 1, "torch": 1, "bootstrap": 1},
            "device": "cpu",
            "snapshot_hash": "sha256:5c",
            "plan": {"seq_len": 512, "stride": 512, "windows": COUNT},
        }
        path = folder / f"{arm}.jsonl"
        with path.open("w", encoding="utf-8") as stream:
            stream.write(json.dumps(meta) + "\n")
            for place, (count, loss) in enumerate(
                zip(tokens.tolist(), losses.tolist(), strict=True)
            ):
                row = {
                    "record_type": "window",
                    "window_id": f"w{place:06d}",
                    "content_hash": f"sha256:{place:064x}",
                    "tokens": count,
                    "loss": loss,
                }
                stream.write(json.dumps(row) + "\n")
        paths.append(str(path))
    return paths[0], paths[1]


def lines() -> Iterator[Line]:
    """The interval alone and the whole command, each in a process of its own."""
    this = [sys.executable, "-m", "bench.overhead_bca"]
    start = run([*this, "nothing"]).seconds
    ours = run([*this, "gatemark"], repeats=2).seconds - start
    with tempfile.TemporaryDirectory() as name:
        bare, guarded = write_arms(Path(name))
        command = gatemark("score", "overhead", "--bare", bare, "--guarded", guarded, "--json")
        whole = run(command, repeats=2)
    yield Line(f"gatemark score overhead, {COUNT:,} windows", whole.seconds, "s")
    yield Line("gatemark score overhead, memory", whole.resident_mb, "MB", at_most=MEMORY_MB)
    yield Line("gatemark, paired BCa of the weighted mean", ours, "s")
    theirs = run([*this, "scipy"]).seconds - start
    yield Line(f"scipy, paired BCa of the weighted mean, batch={BATCH}", theirs, "s")
    yield Line("scipy / gatemark score overhead", theirs / whole.seconds, "x", at_least=10)
    yield Line("scipy / gatemark, the interval", theirs / ours, "x", at_least=20)
