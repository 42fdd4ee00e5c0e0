"""Compare two sets of scores for the same items: items are ``(base, cand, cluster)``.

A score of None means that the item errored on that side: it is counted, and left out of the delta.
To score errors as zero, pass zero. The state has one 33-byte row per distinct (cluster, delta):
three rows in all for binary scores without clusters, at worst one row per item.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Direction, Measurement, measured, unmeasured
from gatemark.core.reason import Reason, ReasonKind
from gatemark.statistics.multiset import Runs, add_rows, hash_name, merge_runs, row_type, union_rows
from gatemark.statistics.paired.comparison import (
    ALPHA,
    Comparison,
    compare_clusters,
    compare_counts,
    compare_deltas,
)
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES

DEFAULT_SEED = 5
_ROW = row_type(("has_cluster", "u1"), ("cluster_a", "<u8"), ("cluster_b", "<u8"), ("delta", "<f8"))
NOTHING_PAIRED: Final = ReasonKind("nothing_paired", "no item is scored on both sides")
NOTHING_RECEIVED: Final = ReasonKind("nothing_received", "no items")
NO_SPREAD: Final = ReasonKind("no_spread", "nothing shows any spread to judge the delta by")
ONLY_BINARY: Final = ReasonKind("only_binary", "only for independent items that are right or wrong")
GRADED_SCORES: Final = ReasonKind("graded_scores", "{graded} of {n} items have graded scores")
_COUNTS = ("both_right", "both_wrong", "gained", "lost")
_GIVES = (
    "delta",
    "p_value",
    "mid_p_value",
    "mde",
    *_COUNTS,
    "base_errors",
    "cand_errors",
)


class PairedState(msgspec.Struct, frozen=True):
    """Counted deltas by cluster, the four cells of right and wrong, and errors by side."""

    runs: Runs = ()
    both_right: int = 0
    both_wrong: int = 0
    gained: int = 0
    lost: int = 0
    graded: int = 0
    base_errors: int = 0
    cand_errors: int = 0
    both_errors: int = 0


class PairedTable(NamedTuple):
    """The data of a comparison, in an order that does not depend on the order of items.

    ``clusters`` is null if no item names one; otherwise an item without one is its own cluster.
    """

    state: PairedState
    deltas: NDArray[np.float64]
    clusters: NDArray[np.int64] | None

    @property
    def n(self) -> int:
        """The number of items scored on both sides."""
        return int(self.deltas.size)

    @property
    def is_binary(self) -> bool:
        """Whether every score was 0 or 1."""
        return self.state.graded == 0


def step(state: PairedState, batch: Batch) -> PairedState:
    """Count a batch of items into the state."""
    rows = []
    added = dict.fromkeys(PairedState.__struct_fields__[1:], 0)
    for (base, cand, cluster), count in Counter(batch).items():
        if base is None or cand is None:
            added["base_errors"] += count * (base is None)
            added["cand_errors"] += count * (cand is None)
            added["both_errors"] += count * (base is None and cand is None)
            continue
        if not (math.isfinite(base) and math.isfinite(cand)):
            raise InvalidValueError(f"paired scores must be finite, got {base} and {cand}")
        added[_name_cell(base, cand)] += count
        key = (0, 0, 0) if cluster is None else (1, *hash_name(cluster))
        rows.append((*key, cand - base + 0.0, count))
    counts = {name: getattr(state, name) + count for name, count in added.items()}
    return PairedState(runs=add_rows(state.runs, rows, _ROW), **counts)


def merge(left: PairedState, right: PairedState) -> PairedState:
    """Merge two states."""
    counts = {
        name: getattr(left, name) + getattr(right, name)
        for name in PairedState.__struct_fields__[1:]
    }
    return PairedState(runs=merge_runs(left.runs, right.runs, _ROW), **counts)


def build_paired_table(state: PairedState) -> PairedTable:
    """Return the deltas, candidate minus baseline, with their clusters."""
    rows = union_rows(state.runs, _ROW)
    deltas = np.repeat(rows["delta"], rows["count"])
    if not bool(rows["has_cluster"].any()):
        return PairedTable(state, deltas, None)
    same = np.ones(rows.size, dtype=bool)
    same[:1] = False
    for name in ("cluster_a", "cluster_b", "has_cluster"):
        same[1:] &= rows[name][1:] == rows[name][:-1]
    codes = np.repeat(np.cumsum(~same), rows["count"])
    alone = np.repeat(rows["has_cluster"] == 0, rows["count"])
    codes[alone] = -1 - np.arange(int(alone.sum()))
    return PairedTable(state, deltas, codes)


def compare_paired(
    state: PairedState,
    *,
    seed: int = DEFAULT_SEED,
    resamples: int = DEFAULT_RESAMPLES,
    alpha: float = ALPHA,
) -> Comparison | None:
    """Compare by the method that fits the scores; return None if no item has both."""
    pairs = build_paired_table(state)
    rng = np.random.default_rng(seed)
    if pairs.n == 0:
        return None
    if pairs.clusters is not None:
        return compare_clusters(pairs.deltas, pairs.clusters, rng, alpha=alpha, resamples=resamples)
    if pairs.is_binary:
        return compare_counts(state.lost, state.gained, pairs.n, alpha=alpha)
    return compare_deltas(pairs.deltas, rng, alpha=alpha, resamples=resamples)


def finish(state: PairedState) -> tuple[Measurement, ...]:
    """Return the measurements, with the default seed for resampling."""
    found = compare_paired(state)
    excluded = _count_excluded(state)
    if found is None:
        nothing = (
            _make_measurement(name, None, NOTHING_PAIRED(), 0, excluded) for name in _GIVES[:-2]
        )
        return (*nothing, *_measure_errors(state))
    n = _count_scored(state)
    no_spread, only_binary = NO_SPREAD(), ONLY_BINARY()
    return (
        measured(
            "delta",
            found.delta,
            n=n,
            direction="higher_is_better",
            unit="score",
            interval=found.interval,
            other_intervals=found.other_intervals,
            excluded=excluded,
            caveats=found.caveats,
        ),
        _make_measurement("p_value", found.p_value, no_spread, n, excluded),
        _make_measurement("mid_p_value", found.mid_p_value, only_binary, n, excluded),
        _make_measurement("mde", found.mde, no_spread, n, excluded),
        *_measure_cells(state, n, excluded),
        *_measure_errors(state),
    )


def _name_cell(base: float, cand: float) -> str:
    if base == 1:
        return "both_right" if cand == 1 else "lost" if cand == 0 else "graded"
    if base == 0:
        return "both_wrong" if cand == 0 else "gained" if cand == 1 else "graded"
    return "graded"


def _count_scored(state: PairedState) -> int:
    return state.both_right + state.both_wrong + state.gained + state.lost + state.graded


def _measure_cells(state: PairedState, n: int, excluded: dict[str, int]) -> tuple[Measurement, ...]:
    reason = GRADED_SCORES(graded=state.graded, n=n)
    counts = {name: None if state.graded else getattr(state, name) for name in _COUNTS}
    return tuple(
        _make_measurement(name, count, reason, n, excluded, unit="count")
        for name, count in counts.items()
    )


def _measure_errors(state: PairedState) -> tuple[Measurement, ...]:
    received = _count_scored(state) + state.base_errors + state.cand_errors - state.both_errors
    counts = {"base_errors": state.base_errors, "cand_errors": state.cand_errors}
    return tuple(
        _make_measurement(
            name, count if received else None, NOTHING_RECEIVED(), received, {}, unit="count"
        )
        for name, count in counts.items()
    )


def _count_excluded(state: PairedState) -> dict[str, int]:
    sides = {
        "base_error": state.base_errors - state.both_errors,
        "cand_error": state.cand_errors - state.both_errors,
        "both_error": state.both_errors,
    }
    return {name: count for name, count in sides.items() if count}


def _make_measurement(
    name: str,
    value: float | None,
    reason: Reason,
    n: int,
    excluded: dict[str, int],
    *,
    unit: str = "ratio",
) -> Measurement:
    direction = _choose_direction(name)
    if value is None:
        return unmeasured(name, reason, n=n, direction=direction, unit=unit, excluded=excluded)
    return measured(name, value, n=n, direction=direction, unit=unit, excluded=excluded)


def _choose_direction(name: str) -> Direction:
    if name in ("delta", "gained", "both_right"):
        return "higher_is_better"
    return "neutral" if name in ("p_value", "mid_p_value") else "lower_is_better"


MEASURE = Measure(
    name="paired",
    summary="What changed between two sets of scores for the same items.",
    state=PairedState,
    zero=PairedState,
    step=step,
    merge=merge,
    finish=finish,
    known=(
        KnownAnswer(
            title="eight lost, one gained, one errored",
            batch=[
                *[(1, 0, None)] * 8,
                (0, 1, None),
                *[(1, 1, None)] * 80,
                *[(0, 0, None)] * 11,
                (None, 1, None),
            ],
            expected={
                "delta": -0.07,
                "p_value": 20 / 512,
                "mid_p_value": 11 / 512,
                "both_right": 80.0,
                "both_wrong": 11.0,
                "gained": 1.0,
                "lost": 8.0,
                "base_errors": 1.0,
                "cand_errors": 0.0,
            },
        ),
        KnownAnswer(
            title="graded scores have no right and wrong",
            batch=[(0.25, 0.5, None), (0.5, 0.25, None), (0.5, 1.0, None)],
            expected={
                "delta": 0.5 / 3,
                "p_value": 0.75,
                "mid_p_value": None,
                "gained": None,
            },
        ),
        KnownAnswer(
            title="nothing paired",
            batch=[(None, 1.0, None), (None, None, "a")],
            expected={
                "delta": None,
                "p_value": None,
                "lost": None,
                "base_errors": 2.0,
                "cand_errors": 1.0,
            },
        ),
    ),
    gives=_GIVES,
    counted=True,
)
