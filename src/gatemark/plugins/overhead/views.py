"""Figures of guard overhead: the arms side by side, the axes, the windows that moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gatemark.core.measurement import Measurement
from gatemark.core.result import Cell, Figure, ShiftBin, Shifts, Table
from gatemark.plugins.overhead.arms import LISTED_IDS, SHOWN_IDS
from gatemark.plugins.overhead.document import ArmPart
from gatemark.plugins.overhead.facts import Facts
from gatemark.plugins.overhead.measure import BARE, GUARDED, OVERHEAD
from gatemark.plugins.overhead.options import OverheadOptions, find_profile_value, resolve_settings
from gatemark.plugins.overhead.paired_overhead import PairedOverhead
from gatemark.plugins.overhead.policy import INSTALL, LATENCY, MEMORY

SHOWN_BINS: Final = 240
SHOWN_HASH: Final = 20


def draw_figures(
    facts: Facts,
    numbers: Sequence[Measurement],
    options: OverheadOptions,
    found: PairedOverhead | None,
) -> tuple[Figure, ...]:
    """Return every figure that is not empty."""
    by_name = {number.name: number for number in numbers}
    shown: list[Figure | None] = [
        _draw_defects(facts),
        _draw_bad_windows(facts),
        _draw_arms(facts, by_name),
        _draw_axes(facts, by_name, options),
        _draw_single_guards(facts),
        _draw_overrides(options),
        None if found is None else _draw_shifts(facts, found, options),
        _draw_worst(facts),
    ]
    return tuple(figure for figure in shown if figure is not None)


def _draw_table(
    title: str, columns: tuple[str, ...], rows: tuple[tuple[Cell, ...], ...]
) -> Table | None:
    return Table(title, columns, rows, len(rows)) if rows else None


def _draw_defects(facts: Facts) -> Table | None:
    rows = tuple((found.check, found.message, found.count) for found in facts.defects)
    return _draw_table("What is wrong with the arms", ("check", "finding", "count"), rows)


def _draw_bad_windows(facts: Facts) -> Table | None:
    rows = tuple(
        (found.check, ", ".join(found.window_ids))
        for found in facts.defects
        if len(found.window_ids) > LISTED_IDS
    )
    return _draw_table("Which windows are wrong", ("check", f"the first {SHOWN_IDS} windows"), rows)


def _draw_arms(facts: Facts, numbers: dict[str, Measurement]) -> Table | None:
    sides = [facts.arms[role] for role in ("bare", "guarded") if role in facts.arms]
    if len(sides) < 2:
        return None
    values = [numbers[name].value for name in (BARE, GUARDED)]
    costs = (facts.spent.bare, facts.spent.guarded)
    quality = "accuracy" if facts.kind == "accuracy" else "perplexity"
    rows: dict[str, Sequence[Cell]] = {
        quality: values,
        "windows": [side.windows for side in sides],
        "metric": [side.metric_kind for side in sides],
        "guards": [_name_guards(side) for side in sides],
        "device": [side.device for side in sides],
        "seeds": [
            _render_named(side.seeds, ("python", "numpy", "torch", "bootstrap"), named=True)
            for side in sides
        ],
        "length, stride, windows": [
            _render_named(side.plan, ("seq_len", "stride", "windows")) for side in sides
        ],
        "snapshot": [_shorten_hash(side.snapshot_hash) for side in sides],
        "latency p50, ms": [cost.latency_ms_p50 for cost in costs],
        "latency p95, ms": [cost.latency_ms_p95 for cost in costs],
        _MEMORY_ROWS[costs[0].memory_source]: [cost.peak_memory_bytes for cost in costs],
        "file": [side.file for side in sides],
        "digest": [_shorten_hash(side.digest) for side in sides],
    }
    shown = tuple(
        (name, *map(_render_cell, pair), _render_difference(*pair)) for name, pair in rows.items()
    )
    return Table("Arms side by side", ("", "bare", "guarded", "difference"), shown, len(shown))


_MEMORY_ROWS: Final = {
    None: "peak memory, bytes",
    "device": "peak memory of the device, bytes",
    "process": "peak memory of the process, bytes",
    "python": "peak memory of Python's allocator, bytes",
}


def _render_cell(value: Cell) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:#.6g}" if isinstance(value, float) else str(value)


def _render_difference(bare: Cell, guarded: Cell) -> str:
    """Return the difference of two cells as text."""
    if bare is None or guarded is None:
        return "unknown"
    if bare == guarded:
        return "none"
    if isinstance(bare, float | int) and isinstance(guarded, float | int):
        return f"{guarded - bare:+,.6g}"
    return "differs"


def _shorten_hash(name: str | None) -> str | None:
    """Shorten a hash; the JSON report has all of it."""
    return name if name is None or len(name) <= SHOWN_HASH else name[: SHOWN_HASH - 1] + "…"


def _name_guards(side: ArmPart) -> str | None:
    if side.guards is None:
        return "not stated"
    return ", ".join(side.guards) or "none"


def _render_named(
    values: Mapping[str, int | None] | None, names: Sequence[str], *, named: bool = False
) -> str | None:
    if values is None:
        return None
    known = ((name, values[name]) for name in names)
    if named:
        return ", ".join(f"{name} {value}" for name, value in known if value is not None) or "none"
    return ", ".join(str(value) for _, value in known)


def _draw_axes(facts: Facts, numbers: dict[str, Measurement], options: OverheadOptions) -> Table:
    settings = resolve_settings(options)
    cells: list[tuple[Cell, ...]] = []
    for axis, name, budget in (
        ("quality", OVERHEAD, settings.budget),
        ("latency", LATENCY, settings.latency_budget),
        ("memory", MEMORY, settings.memory_budget),
    ):
        number = numbers[name]
        interval = (
            "none"
            if number.interval is None
            else f"[{number.interval.low:+.3%}, {number.interval.high:+.3%}]"
        )
        shown = "not measured" if number.value is None else f"{number.value:+.3%}"
        limit = "not gated" if budget is None else f"{budget:.2%}"
        note = number.reason or (
            ", ".join(number.caveats) if name == LATENCY and number.interval is None else ""
        )
        cells.append((axis, shown, interval, limit, str(note or "measured")))
    if (install := numbers.get(INSTALL)) is not None:
        shown = "not measured" if install.value is None else f"{install.value:,.3g} ms"
        budget = settings.install_budget
        limit = "not gated" if budget is None else f"{budget:,g} ms"
        note = install.reason or f"slowest of {install.n}"
        cells.append(("install", shown, "none", limit, str(note)))
    unit = "points of accuracy" if facts.basis == "count" else "of perplexity"
    count = {3: "Three", 4: "Four"}[len(cells)]
    title = f"{count} axes (quality in percent {unit})"
    columns = ("axis", "overhead", "interval", "budget", "note")
    return Table(title, columns, tuple(cells), len(cells))


def _draw_single_guards(facts: Facts) -> Table | None:
    """Return each guard alone, the slowest first."""
    guards = sorted(facts.spent.guards, key=lambda one: one.latency_overhead, reverse=True)
    shift = "drop of accuracy" if facts.basis == "count" else "shift, nats"
    rows = tuple(
        (
            one.name,
            f"{one.latency_overhead:+.1%}",
            "not measured" if one.shift is None else f"{one.shift:+.4g}",
            one.windows,
        )
        for one in guards
    )
    columns = ("guard", "time against bare", shift, "windows")
    return _draw_table("Each guard alone", columns, rows)


def _draw_overrides(options: OverheadOptions) -> Table | None:
    rows = tuple(
        (
            override.field,
            str(find_profile_value(options, override.field)),
            str(override.value),
            override.reason or "stricter than the profile",
            override.owner or "not named",
            override.evidence or "none needed",
        )
        for override in options.overrides
    )
    columns = ("setting", f"profile {options.profile}", "here", "reason", "owner", "evidence")
    return _draw_table("Overrides of the profile", columns, rows)


def _draw_shifts(facts: Facts, found: PairedOverhead, options: OverheadOptions) -> Shifts:
    size = -(-found.shifts.size // SHOWN_BINS)
    bins = []
    for start in range(0, found.shifts.size, size):
        part = np.sort(found.shifts[start : start + size])
        bins.append(
            ShiftBin(
                first=start + 1,
                last=start + part.size,
                low=float(part[0]),
                middle=float(part[(part.size - 1) // 2]),
                high=float(part[-1]),
            )
        )
    budget = resolve_settings(options).budget
    is_loss = facts.basis == "loss"
    return Shifts(
        title="Shift of every window",
        axis="guarded minus bare, nats per token" if is_loss else "drop of accuracy",
        bins=tuple(bins),
        mean=math.log1p(found.overhead) if is_loss else found.overhead,
        bound=math.log1p(budget) if is_loss else budget,
    )


def _draw_worst(facts: Facts) -> Table | None:
    rows = tuple((w.window_id, w.bare, w.guarded, w.shift) for w in facts.worst)
    unit = "shift, nats" if facts.basis == "loss" else "drop of accuracy"
    values = ("bare loss", "guarded loss") if facts.basis == "loss" else ("bare", "guarded")
    return _draw_table("Worst windows", ("window", *values, unit), rows)
