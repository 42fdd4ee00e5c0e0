"""Drift in a terminal: a table of signals, the worst first, and the actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gatemark.release.drift.signal import DriftSignal, rank_level
from gatemark.report.words import clean, number

HEADER: Final = ("LEVEL", "ASSET", "METRIC", "SIGMA", "Z", "VALUE", "BASELINE", "N")
QUIET: Final = frozenset({"OK", "INFO"})


def signal_table(signals: Sequence[DriftSignal], *, limit: int | None = None) -> list[str]:
    """Return the signals as aligned lines, the most serious first, each with its reason."""
    ordered = sorted(signals, key=lambda s: (-rank_level(s.level), s.asset, s.metric))
    shown = ordered if limit is None else ordered[:limit]
    rows = [HEADER, *(_format_cells(signal) for signal in shown)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADER))]
    lines = []
    for row, signal in zip(rows, (None, *shown), strict=True):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
        if signal is not None and signal.level not in QUIET:
            lines.append(f"    {clean(signal.reason)}")
    if len(shown) < len(ordered):
        lines.append(f"… and {len(ordered) - len(shown)} more")
    return [line.rstrip() for line in lines]


def level_line(levels: Mapping[str, int]) -> str:
    """Return the number of signals at each level."""
    return ", ".join(f"{count} {level}" for level, count in levels.items()) or "no signals"


def action_lines(actions: Iterable[tuple[str, str, str, str]]) -> list[str]:
    """Return one line for each action, given as asset, metric, level and outcome."""
    return [
        f"{level} {clean(asset)} {clean(metric)}: {clean(outcome)}"
        for asset, metric, level, outcome in actions
    ]


def _format_cells(signal: DriftSignal) -> tuple[str, ...]:
    return (
        signal.level,
        clean(signal.asset),
        clean(signal.metric),
        _format_signed(signal.sigma),
        _format_signed(signal.z),
        "-" if signal.value is None else number(signal.value),
        str(signal.baseline_windows),
        str(signal.n),
    )


def _format_signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
