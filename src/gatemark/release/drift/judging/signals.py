"""Turn the readings of a series into a signal: numbers, and a reason in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatemark.core.levels import Level
from gatemark.release.drift.judging.cohort import NEVER, Cohort
from gatemark.release.drift.judging.detector import Readings
from gatemark.release.drift.judging.levels import CODE, Rarity, Scores
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.signal import LEVELS, DriftSignal, make_unjudged_signal

Floats = NDArray[np.float64]
Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]
MOST_NAMES = 5


class CohortSignals(NamedTuple):
    """The findings about some rows of a cohort in one column."""

    column: int
    rows: NDArray[np.int64]
    readings: Readings
    scores: Scores
    baseline_windows: Floats
    rarity: Rarity
    levels: Codes
    by_mean: Flags

    def only(self, chosen: Flags) -> CohortSignals:
        """Return the findings about the chosen rows."""
        return CohortSignals(
            column=self.column,
            rows=self.rows[chosen],
            readings=self.readings.rows(chosen),
            scores=self.scores.rows(chosen),
            baseline_windows=self.baseline_windows[chosen],
            rarity=self.rarity.rows(chosen),
            levels=self.levels[chosen],
            by_mean=self.by_mean[chosen],
        )


def make_signals(
    cohort: Cohort, judgement: CohortSignals, policy: DriftPolicy
) -> Iterator[tuple[int, DriftSignal]]:
    """Yield row and signal of every judged series."""
    found, column, rows = judgement.readings, judgement.column, judgement.rows
    is_shown = judgement.baseline_windows >= min(cohort.watch.displayed, cohort.enough)
    # Convert whole columns at once; one value at a time would take most of a tick.
    numbers = zip(
        rows.tolist(),
        judgement.levels.tolist(),
        _explain_rows(cohort, judgement, policy),
        judgement.baseline_windows.tolist(),
        cohort.raw_items[rows, column].tolist(),
        cohort.windows(rows, column),
        *(
            _list_numbers(part, is_shown)
            for part in (found.sigma, found.z, found.p_value, found.sd)
        ),
        *(_list_numbers(part) for part in (found.value, found.mu)),
        _read_extras(found),
        strict=True,
    )
    name, all_series = cohort.detector.name, cohort.series
    for row, code, reason, windows, n, window, sigma, z, p_value, sd, value, mu, more in numbers:
        series = all_series[row]
        signal = DriftSignal(
            asset=series.asset,
            metric=series.metric,
            detector=name,
            level=LEVELS[code],
            reason=reason,
            sigma=sigma,
            z=z,
            p_value=p_value,
            value=value,
            mu=mu,
            sd=sd,
            n=int(n),
            window=window,
            baseline_windows=int(windows),
            extras=more,
            version=series.version,
        )
        yield row, signal


def _read_extras(found: Readings) -> Iterator[dict[str, float]]:
    """Yield the additional numbers of a detector for each row."""
    names = tuple(found.extras)
    columns = [_list_numbers(part) for part in found.extras.values()]
    for numbers in zip(*columns, strict=True) if columns else [()] * found.value.size:
        pairs = zip(names, numbers, strict=True)
        yield {name: number for name, number in pairs if number is not None}


def make_stale_signal(cohort: Cohort, row: int) -> DriftSignal:
    """Return the signal of a series whose latest closed window cannot be judged.

    It has no points, or too few items.

    ``missing_windows`` is how many of the latest windows cannot be judged for that reason;
    ``silent_windows`` is how many were checked if the start of the gap is unknown.
    """
    n = int(cohort.raw_items[row, -1])
    counted = np.flatnonzero(cohort.items[row] > 0)
    last_point = int(cohort.last_point[row])
    extras: dict[str, float] = {}
    gap = cohort.checked
    if counted.size or last_point > NEVER:
        since = int(cohort.last[row]) - last_point
        gap = cohort.columns - 1 - int(counted[-1]) if counted.size else since
        extras["missing_windows"] = gap
    else:
        extras["silent_windows"] = gap
    if n:
        needed = f"only {n} items in the latest window, {cohort.watch.min_items} are needed"
        reason = needed if gap == 1 else f"{needed}; nothing to judge for {_format_windows(gap)}"
    elif counted.size:
        last = cohort.window(row, int(cohort.last[row]) - gap)
        reason = (
            f"no point for {_format_windows(gap)}; the last one ended {last.end:%Y-%m-%dT%H:%MZ}"
        )
    elif last_point > NEVER:
        last = cohort.window(row, last_point)
        reason = f"no point for a long time; the last window looked at ended {last.end:%Y-%m-%d}"
    else:
        reason = f"no point in the latest {cohort.checked} windows"
    return _make_unjudged(cohort, row, "STALE", reason, extras)


def make_unserved_signal(cohort: Cohort, row: int) -> DriftSignal:
    """Return the signal of a series whose version did not serve the whole latest window."""
    reason = f"{cohort.series[row].version} did not serve the whole window alone"
    return _make_unjudged(cohort, row, "INSUFFICIENT_BASELINE", reason)


def _make_unjudged(
    cohort: Cohort, row: int, level: Level, reason: str, extras: dict[str, float] | None = None
) -> DriftSignal:
    series = cohort.series[row]
    return make_unjudged_signal(
        (series.asset, series.metric, cohort.detector.name),
        level,
        reason,
        n=int(cohort.raw_items[row, -1]),
        window=cohort.window(row, int(cohort.last[row])),
        version=series.version,
        extras=extras,
    )


def _explain_rows(cohort: Cohort, judgement: CohortSignals, policy: DriftPolicy) -> Iterator[str]:
    """Yield the reason of each row, with a fast path for OK."""
    well, line = CODE["OK"], f"{cohort.watch.warn:g}"
    is_literal = policy.mode == "literal"
    names = np.where(np.isfinite(judgement.readings.sigma) & is_literal, "sigma", "z").tolist()
    sizes = np.abs(judgement.scores.warn).tolist()
    levels = judgement.levels.tolist()
    is_flat = judgement.readings.is_degenerate.tolist()
    for at, (code, name, size) in enumerate(zip(levels, names, sizes, strict=True)):
        if code == well and is_flat[at]:
            effect = f"{cohort.watch.min_effect:g}"
            yield f"differs from a baseline that never changed by less than {effect} (min_effect)"
        elif code == well:
            yield f"|{name}| {size:.2f} is below {line}"
        else:
            yield _explain_row(cohort, judgement, at, LEVELS[code], policy)


def _explain_row(
    cohort: Cohort, judgement: CohortSignals, at: int, level: Level, policy: DriftPolicy
) -> str:
    watch, found = cohort.watch, judgement.readings
    score, extreme = judgement.scores.warn[at], judgement.scores.breach[at]
    name = "sigma" if policy.mode == "literal" and math.isfinite(found.sigma[at]) else "z"
    match level:
        case "INSUFFICIENT_BASELINE":
            windows = int(judgement.baseline_windows[at])
            if windows >= cohort.enough:
                return "the baseline leaves nothing to compare with"
            return f"{_format_windows(windows)} of baseline, {watch.enough} are needed to judge"
        case "BREACH":
            side = "above" if extreme > 0 else "below"
            lasting = f"beyond {watch.breach:g} for {_format_windows(watch.sustained)} or more"
            if judgement.by_mean[at]:
                lasting = (
                    f"{_format_windows(watch.sustained + 1)} on average beyond {watch.breach:g}"
                )
            if not judgement.scores.is_sigma[at]:
                reference = _describe_reference(cohort, found, at)
                return f"z {abs(extreme):.2f} against {reference}, {lasting}"
            return f"{abs(extreme):.2f} sigma {side} the baseline, {lasting}"
        case "WARN":
            tick = (
                ""
                if policy.mode == "literal"
                else f"; {_describe_rarity(judgement.rarity, at, policy)}"
            )
            news = f"; {_describe_new_classes(cohort, judgement, at)}" if found.is_new[at] else ""
            sealed = ""
            if cohort.detector.needs_reference:
                sealed = f" against {_describe_reference(cohort, found, at)}"
            return f"|{name}| {abs(score):.2f}{sealed} must be < {watch.warn:g}{tick}{news}"
        case "DEGENERATE":
            return "differs from a baseline that never changed, so that no sigma exists"
        case "NEW_CLASS":
            return _describe_new_classes(cohort, judgement, at)
        case _:
            return _describe_harmless(name, cohort, judgement, at, policy)


def _describe_reference(cohort: Cohort, found: Readings, at: int) -> str:
    """Return what a window was compared with, in words."""
    if cohort.detector.needs_reference:
        return f"the sealed score {found.mu[at]:.4g}"
    return "the baseline"


def _describe_new_classes(cohort: Cohort, judgement: CohortSignals, at: int) -> str:
    """Return which classes of the window are new, in words."""
    row, column = int(judgement.rows[at]), judgement.column
    layout = cohort.series[row].layout
    fresh = (cohort.parts[row, column] > 0) & (cohort.parts[row, :column].sum(axis=0) == 0)
    names = [str(layout[place]) for place in np.flatnonzero(fresh) if place < len(layout)]
    shown = ", ".join(names[:MOST_NAMES])
    return f"a class occurred that the baseline never had{': ' + shown if shown else ''}"


def _describe_harmless(
    name: str, cohort: Cohort, judgement: CohortSignals, at: int, policy: DriftPolicy
) -> str:
    score = float(judgement.scores.warn[at])
    if judgement.readings.is_degenerate[at]:
        return "differs from a constant baseline in the harmless direction"
    if not judgement.scores.harm[at]:
        sealed = float(cohort.reference[judgement.rows[at], 0])
        if score < 0 and judgement.readings.value[at] >= sealed:
            return f"{name} {score:+.2f}, but not below the sealed score {sealed:.4g}"
        return f"{name} {score:+.2f} is in the harmless direction"
    return f"|{name}| {abs(score):.2f}, but {_describe_rarity(judgement.rarity, at, policy)}"


def _describe_rarity(rarity: Rarity, at: int, policy: DriftPolicy) -> str:
    """Return how rare a reading is and how rare it must be, in words."""
    found, allowed = float(rarity.found[at]), float(rarity.allowed[at])
    if policy.q is not None:
        sign = "<=" if found <= allowed else ">"
        return (
            f"p adjusted for the tick {'is ' if sign == '>' else ''}{found:.3g} {sign} {allowed:g}"
        )
    return f"a healthy metric comes this far {found:.3g} times a year ({allowed:.3g} allowed)"


def _format_windows(count: int) -> str:
    return f"{count} window" if count == 1 else f"{count} windows"


def _list_numbers(part: Floats, is_shown: Flags | None = None) -> list[float | None]:
    """Return the numbers of a column; None for one that has no value or is not shown."""
    known = np.isfinite(part) if is_shown is None else np.isfinite(part) & is_shown
    numbers = part.astype(object)
    numbers[~known] = None
    found: list[float | None] = numbers.tolist()
    return found
