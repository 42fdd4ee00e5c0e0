"""The table of verdicts in the documentation is what the simulation gives."""

from __future__ import annotations

from pathlib import Path

from bench.verdicts import PAGE, with_table

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_simulation_gives() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert with_table(page) == page, "write it with: python -m bench.verdicts --write"
