"""Points pushed into SQLite and held against the ledger, and one tick over a fleet.

The fleet has six metrics per asset in four forms: two rates, a plain value, a rate of rejections, a
histogram of confidences and classes of tool errors. ``drift probe`` reads and judges thirty windows
of each, sixteen of them with a full baseline, and remembers what it saw; the second tick is the
daily one, with a single new window.

Evidently and NannyML judge frames of raw items, one column at a time. Where the environment of the
bench has them (they are no dependency of any extra; docs/explanation/drift.md says how to make
one), each judges the same windows from the same items: see ``drift_peers``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bench.drift_peers import ITEMS, JUDGED, SERIES
from bench.measure import Line, gatemark, run

ASSETS = int(os.environ.get("GATEMARK_BENCH_ASSETS", "10000"))
WINDOWS = 30
METRICS = 6
PUSHED = int(os.environ.get("GATEMARK_BENCH_POINTS", "1000000"))
SEED = 41_019
START = datetime(2026, 1, 1, tzinfo=UTC)
UNTRACKED = dict.fromkeys(("NML_DISABLE_USAGE_LOGGING", "ITERATIVE_DO_NOT_TRACK"), "1")
"""A bench tells nobody that it runs."""
PEERS = {"evidently": "Evidently", "nannyml": "NannyML"}


def moment(day: int) -> str:
    return (START + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_points(path: Path, assets: int, days: range) -> int:
    """Lines of six metrics per asset and day; says how many there are."""
    rng = np.random.default_rng(SEED + days.start)
    count = 0
    with path.open("w", encoding="utf-8") as stream:
        for day in days:
            accuracy = rng.binomial(200, 0.93, assets)
            blocked = rng.binomial(400, 0.05, assets)
            latency = rng.normal(120, 5, assets)
            rejected = rng.binomial(400, 0.12, assets)
            confidence = rng.multinomial(300, [0.1] * 10, assets)
            errors = rng.multinomial(200, [0.93, 0.04, 0.03], assets)
            window = f'"start":"{moment(day)}","end":"{moment(day + 1)}"'
            for at in range(assets):
                head = f'{{"asset":"asset-{at}",{window},"metric":'
                none, slow, wrong = errors[at]
                stream.write(
                    f'{head}"golden_accuracy","k":{accuracy[at]},"n":200}}\n'
                    f'{head}"verifier_block_ratio","k":{blocked[at]},"n":400}}\n'
                    f'{head}"latency_ms","value":{latency[at]:.3f},"n":400}}\n'
                    f'{head}"rejection_ratio","k":{rejected[at]},"n":400}}\n'
                    f'{head}"confidence_kl","histogram":{confidence[at].tolist()}}}\n'
                    f'{head}"tool_error_classes","categories":'
                    f'{{"none":{none},"slow":{slow},"wrong":{wrong}}}}}\n'
                )
                count += METRICS
    return count


def lines() -> Iterator[Line]:
    """Push, first tick, daily tick, growth, and the peers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _push(folder)
        seconds = {}
        for assets in (max(ASSETS // 5, 1), ASSETS):
            store = _fleet(folder, assets)
            cost = run(gatemark("drift", "probe", "--now", moment(WINDOWS), "--store", store))
            seconds[assets] = cost.seconds
            size = f"{assets:,} assets x {METRICS} metrics x {WINDOWS} windows"
            bounds = (10.0, 500.0) if assets == 10_000 else (None, None)
            yield Line(f"drift probe, {size}", cost.seconds, "s", at_most=bounds[0])
            yield Line("its peak memory", cost.resident_mb, "MB", at_most=bounds[1])
        few, many = sorted(seconds)
        growth = (seconds[many] / many) / (seconds[few] / few)
        yield Line(f"time per asset, {many:,} / {few:,}", growth, "x", at_most=1.3)
        _push_more(folder, store, ASSETS, range(WINDOWS, WINDOWS + 1))
        cost = run(gatemark("drift", "probe", "--now", moment(WINDOWS + 1), "--store", store))
        yield Line("drift probe, the next day", cost.seconds, "s")
    yield from _peers()


def _push(folder: Path) -> Iterator[Line]:
    path = folder / "million.jsonl"
    days = -(-PUSHED // (ASSETS * METRICS))
    count = write_points(path, ASSETS, range(days))
    empty = folder / "empty.jsonl"
    write_points(empty, 1, range(1))
    started = run(
        gatemark("drift", "push", str(empty), "--store", str(folder / "empty")), repeats=3
    )
    cost = run(gatemark("drift", "push", str(path), "--store", str(folder / "million")))
    rate = count / (cost.seconds - started.seconds)
    yield Line(f"drift push, {count:,} points in {cost.seconds:.1f} s", rate, "/s", at_least=50_000)
    yield Line("its peak memory", cost.resident_mb, "MB")
    checked = run(gatemark("ledger", "verify", "--store", str(folder / "million")))
    rate = count / checked.seconds
    yield Line(f"ledger verify, {count:,} points", rate, "/s", at_least=50_000)
    yield Line("its peak memory", checked.resident_mb, "MB")
    path.unlink()


def _fleet(folder: Path, assets: int) -> str:
    store = str(folder / f"fleet-{assets}")
    _push_more(folder, store, assets, range(WINDOWS))
    return store


def _push_more(folder: Path, store: str, assets: int, days: range) -> None:
    path = folder / "points.jsonl"
    write_points(path, assets, days)
    run(gatemark("drift", "push", str(path), "--store", store))
    path.unlink()


def _peers() -> Iterator[Line]:
    ours = _judged("gatemark")["seconds"]
    what = f"{SERIES} metrics, {JUDGED} windows of {ITEMS} items"
    yield Line(f"gatemark, {what}", 1000 * ours, "ms")
    for module, shown in PEERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{shown}: not installed")
            continue
        theirs = _judged(module)
        named = f"{shown} {theirs['version']}"
        yield Line(f"{named}, the same", 1000 * theirs["seconds"], "ms")
        yield Line(f"{named} / gatemark", theirs["seconds"] / ours, "x")


def _judged(name: str) -> dict[str, Any]:
    """Version and seconds of one who judges the same windows."""
    command = [sys.executable, "-m", "bench.drift_peers", name]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env={**os.environ, **UNTRACKED}
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
