"""Strengths of several candidates from paired comparisons: the Bradley-Terry model.

Ties count half for each side. Half a win each way is added to every pair that met, so a side that
never lost keeps a finite strength. Intervals come from resampling whole items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import scipy
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError

PSEUDO_WINS: Final = 0.5
RESAMPLES: Final = 1_000
LEVEL: Final = 0.95
MAX_STEPS: Final = 2_000
TOLERANCE: Final = 1e-10
DRAWN_AT_ONCE: Final = 100

Floats = NDArray[np.float64]


class Strength(msgspec.Struct, frozen=True):
    """One side: its log strength (mean zero over all), and the chance to beat an average one."""

    name: str
    log_strength: float
    interval: tuple[float, float]
    wins: float
    losses: float


class Ranking(msgspec.Struct, frozen=True):
    """All sides, strongest first; without sides there is a reason."""

    sides: tuple[Strength, ...]
    items: int
    level: float
    reason: str | None = None


def fit_strengths(wins: Floats) -> Floats:
    """Return log strengths with mean zero; ``wins[..., i, j]`` counts how often i beat j."""
    counts = np.asarray(wins, dtype=np.float64)
    met = (counts + np.swapaxes(counts, -1, -2)) > 0
    counts = counts + PSEUDO_WINS * met
    games = counts + np.swapaxes(counts, -1, -2)
    won = counts.sum(axis=-1)
    strength = np.ones(won.shape)
    for _ in range(MAX_STEPS):
        # Hunter's minorise-maximise step: each side's wins over what its opponents made it expect.
        rivals = games / (strength[..., :, None] + strength[..., None, :])
        fresh = won / rivals.sum(axis=-1)
        fresh /= np.exp(np.log(fresh).mean(axis=-1, keepdims=True))
        change = np.abs(np.log(fresh) - np.log(strength)).max()
        strength = fresh
        if change < TOLERANCE:
            break
    return np.asarray(np.log(strength))


def rank_sides(
    names: Sequence[str],
    item_wins: Floats,
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> Ranking:
    """Rank by ``item_wins[item, i, j]``: how often i beat j on an item, a tie half each way."""
    table = np.asarray(item_wins, dtype=np.float64)
    count = len(names)
    if count < 2 or table.ndim != 3 or table.shape[1:] != (count, count):
        raise InvalidValueError(f"{count} sides do not fit a table of shape {table.shape}")
    items = table.shape[0]
    total = table.sum(axis=0)
    if not _is_connected(total + total.T):
        reason = "the sides fall into groups that never met"
        return Ranking((), items, LEVEL, reason)
    best = fit_strengths(total)
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(items, np.full(items, 1 / items), size=resamples)
    # Keep a trace of every pair that met, or a resample could fall apart into groups.
    trace = 1e-9 * ((total + total.T) > 0)
    drawn = np.einsum("ri,ijk->rjk", weights.astype(np.float64), table) + trace
    spread = fit_strengths(drawn)
    low, high = np.quantile(
        spread, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0, method="inverted_cdf"
    )
    sides = [
        Strength(
            name=names[at],
            log_strength=float(best[at]),
            interval=(float(low[at]), float(high[at])),
            wins=float(total[at].sum()),
            losses=float(total[:, at].sum()),
        )
        for at in np.argsort(-best, kind="stable")
    ]
    return Ranking(tuple(sides), items, LEVEL)


def _is_connected(met: Floats) -> bool:
    reached = {0}
    border = [0]
    while border:
        at = border.pop()
        fresh = {int(other) for other in np.flatnonzero(met[at] > 0)} - reached
        reached |= fresh
        border.extend(fresh)
    return len(reached) == len(met)


class Match(NamedTuple):
    """Comparisons of two sides on one item: wins of each side; ties count half."""

    item: int
    first: int
    second: int
    first_wins: float
    second_wins: float


class RedrawnStrengths(NamedTuple):
    """Strengths fitted to all items and to resampled items.

    ``group`` numbers sets of sides that have beaten each other in a circle. Between groups no
    finite difference fits best, because one side won everything.
    """

    best: Floats
    spread: Floats
    wins: Floats
    group: NDArray[np.int32]


def draw_strengths(
    count: int, matches: Sequence[Match], *, items: int, seed: int, resamples: int
) -> RedrawnStrengths | None:
    """Fit strengths to matches and to resamples of whole items; None if some sides never met."""
    table = np.asarray(matches, dtype=np.float64)
    rows, first, second = (table[:, at].astype(np.int64) for at in range(3))
    shape = (items, count * count)
    places = (np.tile(rows, 2), np.concatenate([first * count + second, second * count + first]))
    sparse = scipy.sparse.csr_array(
        (np.concatenate([table[:, 3], table[:, 4]]), places), shape=shape
    )
    total = np.asarray(sparse.sum(axis=0)).reshape(count, count)
    met = (total + total.T) > 0
    if not _is_connected(met.astype(np.float64)):
        return None
    _, group = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array(total > 0), directed=True, connection="strong"
    )
    rng = np.random.default_rng(seed)
    spread = []
    for start in range(0, resamples, DRAWN_AT_ONCE):
        size = min(DRAWN_AT_ONCE, resamples - start)
        weights = rng.multinomial(items, np.full(items, 1 / items), size=size)
        drawn = np.asarray(weights @ sparse).reshape(size, count, count)
        # Keep a trace of every pair that met, or a resample could fall apart into groups.
        spread.append(fit_strengths(drawn + 1e-9 * met))
    return RedrawnStrengths(fit_strengths(total), np.concatenate(spread), total, group)
