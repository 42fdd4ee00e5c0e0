"""Half a million advisory decisions: against the plain ways, memory, processes, scoring again.

``GATEMARK_BENCH_ADVISORY`` sets another number of records, for a quick look.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.advisory_data import Kind, write_decisions
from bench.measure import Cost, Line, gatemark, run

RECORDS = int(os.environ.get("GATEMARK_BENCH_ADVISORY", "500000"))
DIVERSE_RECORDS = min(300_000, RECORDS)
JSONSCHEMA_RECORDS = min(4_000, RECORDS)
ANY_VERDICT = (0, 1, 3)


def lines() -> Iterator[Line]:
    """Every claim about advisory scoring, measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, little = folder / "decisions.jsonl", folder / "little.jsonl"
        write_decisions(file, RECORDS)
        write_decisions(little, RECORDS // 10)
        yield Line(f"size of {RECORDS:,} decisions", file.stat().st_size / 1e6, "MB")
        peer = [sys.executable, "-m", "bench.advisory_plain", str(file), str(JSONSCHEMA_RECORDS)]
        started = run([sys.executable, "-m", "bench.advisory_plain", str(file), "0"])
        sample = run(peer)
        plain = (sample.seconds - started.seconds) * RECORDS / JSONSCHEMA_RECORDS
        models = [sys.executable, "-m", "bench.advisory_pydantic", str(file)]
        pydantic = run(models, repeats=2)
        bare = run([*models, "bare"], repeats=2)
        score = ("score", "advisory", str(file), "--json", "--store", str(folder / "store"))
        one = _score(*score, "-j", "1", "--no-cache")
        unchecked = _score(*score, "-j", "1", "--no-cache", "--no-duplicate-key-check")
        two = _score(*score, "-j", "2", "--no-cache")
        small = _score("score", "advisory", str(little), "--json", "-j", "1", "--no-cache")
        first = _score(*score, "-j", "1", repeats=1)
        again = _score(*score, "-j", "1")
        yield Line(f"json + jsonschema, from {JSONSCHEMA_RECORDS:,} records", plain, "s")
        yield Line("pydantic v2: rules, counts, ids, texts, digest", pydantic.seconds, "s")
        yield Line("pydantic v2: rules and counts only", bare.seconds, "s")
        yield Line("gatemark, -j 1, repeated keys checked", one.seconds, "s")
        yield Line("gatemark, -j 1, repeated keys not checked", unchecked.seconds, "s")
        yield Line("gatemark, -j 2, repeated keys checked", two.seconds, "s")
        yield Line("gatemark, -j 1, facts kept", first.seconds, "s")
        yield Line("gatemark, scored again from kept facts", again.seconds, "s")
        yield Line("jsonschema / gatemark -j 1", plain / one.seconds, "x", at_least=30)
        yield Line("pydantic / gatemark -j 1", pydantic.seconds / one.seconds, "x", at_least=3)
        ratio = bare.seconds / unchecked.seconds
        yield Line("pydantic, rules and counts only / gatemark, keys unchecked", ratio, "x")
        yield Line("resident memory", one.resident_mb, "MB", at_most=150)
        yield Line("resident memory, all / a tenth", one.resident_mb / small.resident_mb, "x")
        yield Line("-j 1 / -j 2", one.seconds / two.seconds, "x", at_least=1.6)
        yield Line("first / again", first.seconds / again.seconds, "x", at_least=5)
        yield from _diverse_lines(folder)


def _diverse_lines(folder: Path) -> Iterator[Line]:
    """What records cost that are as different as in life, against records that are alike."""
    costs: dict[Kind, Cost] = {}
    kinds: tuple[Kind, ...] = ("alike", "diverse")
    for kind in kinds:
        file = folder / f"{kind}.jsonl"
        write_decisions(file, DIVERSE_RECORDS, kind=kind)
        costs[kind] = _score("score", "advisory", str(file), "--json", "-j", "1", "--no-cache")
    diverse, alike = costs["diverse"], costs["alike"]
    decoded = run([sys.executable, "-m", "bench.advisory_decode", str(file)], repeats=3)
    two = _score("score", "advisory", str(file), "--json", "-j", "2", "--no-cache")
    yield Line(f"{DIVERSE_RECORDS:,} alike, processor time", alike.processor_s, "s")
    yield Line(f"{DIVERSE_RECORDS:,} diverse, processor time", diverse.processor_s, "s")
    ratio = diverse.processor_s / alike.processor_s
    yield Line("diverse / alike, processor time", ratio, "x", at_most=1.5)
    ratio = diverse.processor_s / decoded.processor_s
    yield Line("diverse / a bare typed decode of it, processor time", ratio, "x")
    yield Line("diverse, resident memory", diverse.resident_mb, "MB", at_most=150)
    yield Line("diverse, -j 1 / -j 2", diverse.seconds / two.seconds, "x", at_least=1.6)


def _score(*arguments: str, repeats: int = 3) -> Cost:
    return run(gatemark(*arguments), repeats=repeats, ok_codes=ANY_VERDICT)
