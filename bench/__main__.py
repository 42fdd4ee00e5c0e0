"""``make bench``: every performance claim, as a ratio where it can be one.

``python -m bench drift-quality --keep bench/figures`` also keeps the figures that pages show.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Line

SECTIONS = {
    "help": "agreement.help_lines",
    "agreement": "agreement.lines",
    "advisory": "advisory.lines",
    "runner": "runner.lines",
    "http": "endpoint.lines",
    "compare": "compare.lines",
    "runlog-metrics": "runlog_metrics.lines",
    "ledger": "ledger.lines",
    "overhead": "overhead.lines",
    "overhead-coverage": "overhead_coverage.lines",
    "overhead-latency": "overhead_latency.lines",
    "runlog": "runlog.lines",
    "lifecycle": "lifecycle.lines",
    "drift": "drift.lines",
    "drift-quality": "drift_quality.lines",
    "attribution-quality": "attribution_quality.lines",
    "web": "web.lines",
    "error-rates": "error_rates.lines",
    "verdicts": "verdicts.lines",
}


def main(arguments: list[str]) -> int:
    """Measure the named sections, or all of them."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], default=[])
    parser.add_argument("--keep", type=Path, help="folder for the figures of each section")
    options = parser.parse_args(arguments)
    missed = 0
    for name in options.sections or list(SECTIONS):
        print(f"== {name}", flush=True)
        lines = []
        for line in _measured(name):
            print(line, flush=True)
            missed += line.kept is False
            lines.append(line)
        if options.keep is not None:
            _keep(options.keep / f"{name}.json", lines)
    print(f"{missed} claims missed" if missed else "every claim kept")
    return 1 if missed else 0


def _keep(path: Path, lines: list[Line]) -> None:
    """Write the figures of a section, for tools/check_docs.py to put into pages."""
    figures = {line.claim: {"value": line.value, "unit": line.unit} for line in lines}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _measured(name: str) -> Iterator[Line]:
    """A section is loaded when it is wanted: each needs other packages."""
    module, function = SECTIONS[name].split(".")
    lines: Any = getattr(importlib.import_module(f"bench.{module}"), function)
    yield from lines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
