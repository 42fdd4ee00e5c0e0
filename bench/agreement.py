"""Agreement over a million pairs: speed against the plain way, memory, processes."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Cost, Line, gatemark, run

REFUSED = "NOT_IN_CONTEXT"
LABELS = ("VALID", REFUSED, "REJECT", "ABSTAIN")


def write_pairs(path: Path, count: int) -> None:
    """Invented pairs of about half a kilobyte each, every reason different from the last."""
    draw = random.Random(count)
    with path.open("w", encoding="utf-8") as stream:
        for number in range(count):
            scholar = draw.choices(LABELS, (70, 15, 14, 1))[0]
            auditor = scholar if draw.random() < 0.95 else draw.choice(LABELS[:3])
            page, line = draw.randint(1, 40), draw.randint(1, 9)
            claim = f"Store {page} rejects empty keys while mode {line} is on."
            row = {
                "qid": f"A{number:07d}",
                "scholar": {
                    "label": scholar,
                    "reason": f"claim {number} stands on page {page}; cites p{page}#{line}",
                },
                "auditor": {
                    "label": auditor,
                    "reason": f"provenance of p{page}#{line} ok: row {number}, template {line}",
                },
                "answer_json": {
                    "claim": "not in context" if scholar == auditor == REFUSED else claim,
                    "citations": [f"p{page}#{line}"],
                    "constraints_echo": [f"Store {page} rejects empty keys."],
                },
                "retrieved_ids": [f"p{page}#{line}", f"p{page}#{line + 1}", f"p{page + 1}#1"],
                "flags": {"provenance_violation": False, "constraints_mismatch": False},
            }
            stream.write(json.dumps(row) + "\n")


def lines() -> Iterator[Line]:
    """Every claim about agreement, measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, large = folder / "small.jsonl", folder / "large.jsonl"
        write_pairs(small, 100_000)
        write_pairs(large, 1_050_000)
        yield Line("size of 1,050,000 pairs", large.stat().st_size / 1e6, "MB")
        plain = run(
            [sys.executable, "-m", "bench.plain_agreement", str(folder / "plain.tsv"), str(large)]
        )
        score = ("score", "agreement", "--json", "--out", str(folder), "--pairs")
        one = ("-j", "1")
        fast = run(gatemark(*score, str(large), *one, "--no-duplicate-key-check"), repeats=3)
        checked = run(gatemark(*score, str(large), *one), repeats=3)
        double = run(gatemark(*score, str(large), "-j", "2"), repeats=3)
        little = run(gatemark(*score, str(small), *one), repeats=3)
        yield Line("plain json-and-dicts scorer", plain.seconds, "s")
        yield Line("gatemark, -j 1, duplicate keys checked", checked.seconds, "s")
        yield Line("gatemark, -j 1, duplicate keys not checked", fast.seconds, "s")
        yield Line("gatemark, -j 2, duplicate keys checked", double.seconds, "s")
        yield Line("plain / gatemark -j 1", plain.seconds / checked.seconds, "x", at_least=15)
        yield Line("plain / gatemark -j 1, keys not checked", plain.seconds / fast.seconds, "x")
        yield Line("plain / gatemark -j 2", plain.seconds / double.seconds, "x")
        yield Line("-j 1 / -j 2 over 500 MB", checked.seconds / double.seconds, "x", at_least=1.5)
        yield Line("resident memory, 1,050,000 pairs", checked.resident_mb, "MB", at_most=120)
        growth = checked.resident_mb / little.resident_mb
        yield Line("resident memory, 1,050,000 / 100,000 pairs", growth, "x", at_most=1.25)
        yield from duckdb_lines(folder, large, checked)
        yield from two_file_lines(folder, large)


def duckdb_lines(folder: Path, pairs: Path, ours: Cost) -> Iterator[Line]:
    """The same table, repeated ids and disagreements, where DuckDB is installed."""
    if importlib.util.find_spec("duckdb") is None:
        return
    out = str(folder / "duckdb.tsv")
    theirs = run([sys.executable, "-m", "bench.duckdb_agreement", out, str(pairs)], repeats=3)
    yield Line("merged, DuckDB, processor", theirs.processor_s, "s")
    yield Line("merged, gatemark with all checks, processor", ours.processor_s, "s")
    ratio = ours.processor_s / theirs.processor_s
    yield Line("merged, gatemark / DuckDB, processor", ratio, "x", at_most=1.5)


def write_sides(pairs: Path, folder: Path) -> tuple[str, str]:
    """The same opinions as one file per validator, without answers."""
    paths = folder / "scholar.jsonl", folder / "auditor.jsonl"
    with pairs.open() as rows, paths[0].open("w") as scholar, paths[1].open("w") as auditor:
        for line in rows:
            row = json.loads(line)
            scholar.write(json.dumps({"qid": row["qid"], **row["scholar"]}) + "\n")
            auditor.write(json.dumps({"qid": row["qid"], **row["auditor"]}) + "\n")
    return str(paths[0]), str(paths[1])


def two_file_lines(folder: Path, pairs: Path) -> Iterator[Line]:
    """One file per validator, in processor time: the claim does not depend on other work."""
    scholar, auditor = write_sides(pairs, folder)
    out = str(folder / "plain.tsv")
    plain = run([sys.executable, "-m", "bench.plain_agreement", out, scholar, auditor], repeats=2)
    files = ("--scholar", scholar, "--auditor", auditor)
    ours = run(
        gatemark("score", "agreement", "--json", "--out", str(folder), *files, "-j", "1"), repeats=2
    )
    yield Line("two files, plain scorer, processor", plain.processor_s, "s")
    yield Line("two files, gatemark, processor", ours.processor_s, "s")
    ratio = plain.processor_s / ours.processor_s
    yield Line("two files, plain / gatemark, processor", ratio, "x", at_least=5)
    yield Line("two files, resident memory, 1,050,000 rows", ours.resident_mb, "MB")


def help_lines() -> Iterator[Line]:
    """What it costs to ask for help."""
    cost = run(gatemark("--help"), repeats=5)
    yield Line("gatemark --help", cost.seconds, "s", at_most=0.3)
    yield Line("gatemark --help, resident memory", cost.resident_mb, "MB", at_most=50)
