"""``make bench``: every performance claim, as a ratio where it can be one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
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


def main(wanted: list[str]) -> int:
    """Measure the named sections, or all of them."""
    missed = 0
    for name in wanted or list(SECTIONS):
        print(f"== {name}", flush=True)
        for line in _measured(name):
            print(line, flush=True)
            missed += line.kept is False
    print(f"{missed} claims missed" if missed else "every claim kept")
    return 1 if missed else 0


def _measured(name: str) -> Iterator[Line]:
    """A section is loaded when it is wanted: each needs other packages."""
    module, function = SECTIONS[name].split(".")
    lines: Any = getattr(importlib.import_module(f"bench.{module}"), function)
    yield from lines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
