"""Metrics of 200 run logs: 40 synthetic clinical cases under five variants, concepts by HPO.

Loading the ontology is paid once per process, so it is measured on a single case and taken off:
what is claimed is the time for the logs themselves, on two processes. The traces are as long as
published ones, about 23,000 characters each.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Cost, Line, gatemark, run

CASES = 40
VARIANTS = 5
SETTINGS = {"cases": CASES, "domains": ["clinical"], "rounds": [18, 26], "sentences": [8, 16]}


def make_logs(folder: Path, cases: int) -> None:
    """Traces, their manifest and the logs of every variant."""
    config = folder / "synthetic.json"
    config.write_text(json.dumps(SETTINGS | {"cases": cases}), encoding="utf-8")
    places = ("--output", str(folder / "traces"), "--manifests", str(folder / "manifests"))
    run(gatemark("runlog", "traces", "--config", str(config), *places))
    run(
        gatemark(
            *("runlog", "run", "--traces", str(folder / "traces")),
            *("--output", str(folder / "runs"), "-j", "2"),
        )
    )


def measured(folder: Path, extractor: str) -> Cost:
    """What the whole command costs on two processes."""
    return run(
        gatemark(
            *("runlog", "metrics", "--runs", str(folder / "runs")),
            *("--traces", str(folder / "traces"), "--out", str(folder / "metrics")),
            *("--extractor", extractor, "-j", "2", "--json"),
        )
    )


def lines() -> Iterator[Line]:
    """The command on all logs and on one case, by each extractor."""
    with tempfile.TemporaryDirectory() as name:
        many, one = Path(name) / "many", Path(name) / "one"
        for folder, cases in ((many, CASES), (one, 2)):
            folder.mkdir()
            make_logs(folder, cases)
        logs = CASES * VARIANTS
        for extractor in ("hpo", "lexicon"):
            whole, loading = measured(many, extractor), measured(one, extractor)
            yield Line(f"metrics of {logs} logs, {extractor}, whole command", whole.seconds, "s")
            yield Line(f"  of which loading ({extractor}, 2 cases)", loading.seconds, "s")
            bound = 60.0 if extractor == "hpo" else None
            yield Line(
                f"metrics of {logs} logs, {extractor}, after loading",
                whole.seconds - loading.seconds,
                "s",
                at_most=bound,
            )
            yield Line(f"metrics, {extractor}, resident memory", whole.resident_mb, "MB")
