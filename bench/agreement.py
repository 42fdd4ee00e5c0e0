"""Agreement over evidence as it is in life: time and memory against decoding alone and others.

Times are of the processor, so that other work on the machine counts little. A ratio to decoding is
one to reading the same bytes as typed records with msgspec, in the same run, and nothing else.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.agreement_data import write_pairs, write_sides
from bench.measure import Cost, Line, gatemark, run

ROWS = 300_000
SCORED = (0, 1, 3)
"""The data agrees or not by chance; any verdict costs the same."""


def lines() -> Iterator[Line]:
    """Every claim about agreement, measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, escaped = folder / "plain.jsonl", folder / "escaped.jsonl"
        write_pairs(plain, ROWS)
        write_pairs(escaped, ROWS, escaped=True)
        merged = score(folder, "--pairs", plain)
        yield Line(f"size of {ROWS:,} pairs", plain.stat().st_size / 1e6, "MB")
        yield Line("merged, all checks", merged.processor_s, "s")
        ratio = merged.processor_s / decode(plain).processor_s
        yield Line("merged / decoding", ratio, "x", at_most=6)
        ratio = score(folder, "--pairs", escaped).processor_s / decode(escaped).processor_s
        yield Line("merged with escaped texts / decoding", ratio, "x", at_most=6)
        unchecked = score(folder, "--pairs", plain, "--no-duplicate-key-check")
        yield Line("merged, duplicate keys not checked", unchecked.processor_s, "s")
        double = score(folder, "--pairs", plain, processes=2)
        yield Line("merged, time of -j 1 / -j 2", merged.seconds / double.seconds, "x")
        yield from memory_lines(folder, merged)
        yield from peer_lines(folder, plain, merged)
        for evidence in (False, True):
            yield from two_file_lines(folder, plain, evidence=evidence)


def score(folder: Path, *arguments: str | Path, processes: int = 1) -> Cost:
    """Run the command over some files."""
    out = ("--json", "--out", str(folder / "out"), "-j", str(processes))
    command = gatemark("score", "agreement", *map(str, arguments), *out)
    return run(command, repeats=2, ok_codes=SCORED)


def decode(*paths: Path) -> Cost:
    """Decode the same bytes, and do nothing else."""
    return run([sys.executable, "-m", "bench.agreement_decode", *map(str, paths)], repeats=2)


def memory_lines(folder: Path, merged: Cost) -> Iterator[Line]:
    """Compare the memory of a tenth of the rows with that of all."""
    little = folder / "little.jsonl"
    write_pairs(little, ROWS // 10)
    few = score(folder, "--pairs", little)
    yield Line(f"resident memory, {ROWS:,} pairs", merged.resident_mb, "MB", at_most=130)
    growth = (merged.resident_mb - few.resident_mb) * 1e6 / (ROWS - ROWS // 10)
    yield Line("resident memory of each further pair", growth, "B", at_most=250)


def peer_lines(folder: Path, pairs: Path, ours: Cost) -> Iterator[Line]:
    """Compare with dictionaries in memory, and with DuckDB where it is installed."""
    out = str(folder / "peer.tsv")
    plain = run([sys.executable, "-m", "bench.plain_agreement", out, str(pairs)], repeats=2)
    yield Line("merged, plain json-and-dicts scorer", plain.processor_s, "s")
    ratio = plain.processor_s / ours.processor_s
    yield Line("merged, plain scorer / gatemark", ratio, "x", at_least=1)
    if importlib.util.find_spec("duckdb") is None:
        return
    duckdb = run([sys.executable, "-m", "bench.duckdb_agreement", out, str(pairs)], repeats=2)
    yield Line("merged, DuckDB, which checks almost nothing", duckdb.processor_s, "s")
    yield Line("merged, gatemark / DuckDB", ours.processor_s / duckdb.processor_s, "x")


def two_file_lines(folder: Path, pairs: Path, *, evidence: bool) -> Iterator[Line]:
    """One file per validator, in different orders, with what they judged or without."""
    scholar, auditor = write_sides(pairs, folder, evidence=evidence)
    ours = score(folder, "--scholar", scholar, "--auditor", auditor)
    what = f"two files {'with' if evidence else 'without'} evidence"
    yield Line(f"{what}, all checks", ours.processor_s, "s")
    ratio = ours.processor_s / decode(scholar, auditor).processor_s
    # Short records cost little to decode, and as much as others to join.
    yield Line(f"{what} / decoding", ratio, "x", at_most=11 if evidence else 16)
    yield Line(f"{what}, resident memory", ours.resident_mb, "MB", at_most=650)


def help_lines() -> Iterator[Line]:
    """What it costs to ask for help."""
    cost = run(gatemark("--help"), repeats=5)
    yield Line("gatemark --help", cost.seconds, "s", at_most=0.3)
    yield Line("gatemark --help, resident memory", cost.resident_mb, "MB", at_most=50)
