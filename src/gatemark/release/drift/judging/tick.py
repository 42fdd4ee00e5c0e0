"""One tick: judge every closed window that was not judged yet, oldest first, all series at once.

No I/O: cohorts, recorded episodes, policy and time in; signals and episodes out. Some windows
before the first new one are read again, because its judgement depends on them: nothing but episodes
is kept from one tick to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.release.drift.judging.cohort import Cohort, Rows
from gatemark.release.drift.judging.cohort_state import CohortState, RecordedEpisode
from gatemark.release.drift.judging.detector import Readings, join_readings
from gatemark.release.drift.judging.levels import (
    CODE,
    Rarity,
    Scores,
    Trail,
    find_breaches,
    grade_windows,
    score_readings,
)
from gatemark.release.drift.judging.policy import METRICS_IN_FULL, DriftPolicy
from gatemark.release.drift.judging.signals import (
    CohortSignals,
    make_signals,
    make_stale_signal,
    make_unserved_signal,
)
from gatemark.release.drift.signal import ALARMS, DriftSignal, Episode, find_worst
from gatemark.statistics.significance import benjamini_hochberg_p_values

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
BLOCK_CELLS = 65_536
"""Maximum baseline numbers in a detector call, so that they fit into the CPU cache."""
SECONDS_PER_YEAR = 365.25 * 86_400
_IS_ALARM = np.asarray([level in ALARMS for level in CODE])


class BaselineReset(msgspec.Struct, frozen=True):
    """When and why an episode ends and its series starts a new baseline.

    ``is_takeover`` says that another version serves now, which has windows of its own.
    """

    moment: datetime
    cause: str
    is_takeover: bool = False


class TickFindings(NamedTuple):
    """The outcome of a tick: the signals of each cohort by row, and the episodes.

    ``recorded`` has the same episodes with their baselines.
    """

    by_cohort: tuple[tuple[DriftSignal, ...], ...]
    open: tuple[Episode, ...]
    closed: tuple[Episode, ...]
    recorded: tuple[RecordedEpisode, ...]
    judged_windows: int

    @property
    def signals(self) -> tuple[DriftSignal, ...]:
        """The signals of all series."""
        return tuple(signal for signals in self.by_cohort for signal in signals)


class _Round(NamedTuple):
    """One column of one cohort, read but not yet judged."""

    cohort: Cohort
    state: CohortState
    column: int
    rows: Indices
    is_new: NDArray[np.bool_]
    readings: Readings
    scores: Scores
    baseline_windows: Floats


def judge_tick(
    cohorts: Sequence[tuple[Cohort, CohortState]],
    policy: DriftPolicy,
    now: datetime,
    rearmed: Callable[[Episode], BaselineReset | None] | None = None,
    on_judged: Callable[[Cohort, CohortSignals], None] | None = None,
) -> TickFindings:
    """Judge the windows that are due.

    ``rearmed`` returns the latest reset of an episode's asset. ``on_judged`` is called with every
    judged column.
    """
    for cohort, state in cohorts:
        _rearm(cohort, state, rearmed)
    policy_digest = policy.digest
    shares = _share_allowance(cohorts)
    latest: dict[int, CohortSignals] = {}
    judged = 0
    for back in range(max((cohort.rounds for cohort, _ in cohorts), default=0) - 1, -1, -1):
        rounds = [
            found
            for cohort, state in cohorts
            if back < cohort.rounds
            and (found := _read(cohort, state, cohort.columns - 1 - back, is_last=back == 0))
            is not None
        ]
        if not rounds:
            continue
        for found, rarity in zip(rounds, _measure_rarities(rounds, policy, shares), strict=True):
            judgement = _judge(found, rarity, policy, policy_digest, now)
            judged += int(found.is_new.sum())
            if on_judged is not None:
                on_judged(found.cohort, judgement)
            if back == 0:
                latest[id(found.cohort)] = judgement
    for cohort, state in cohorts:
        state.enter_rest()
        # Windows that are judged late may open an episode from before a reset.
        _rearm(cohort, state, rearmed)
    return TickFindings(
        by_cohort=tuple(
            tuple(_list_signals(cohort, state, latest.get(id(cohort)), policy))
            for cohort, state in cohorts
        ),
        open=tuple(e for _, state in cohorts for e in state.episodes.values()),
        closed=tuple(e for _, state in cohorts for e in state.closed),
        recorded=tuple(one for _, state in cohorts for one in state.recorded()),
        judged_windows=judged,
    )


def _rearm(
    cohort: Cohort, state: CohortState, rearmed: Callable[[Episode], BaselineReset | None] | None
) -> None:
    if rearmed is None:
        return
    for row, episode in [*state.episodes.items(), *state.waiting.items()]:
        fresh = rearmed(episode)
        if fresh is None or fresh.moment < episode.opened.end:
            continue
        if fresh.is_takeover or not state.is_first_seen(row, episode):
            first = cohort.first_index_from(row, fresh.moment)
            state.rearm(row, first, fresh.moment, fresh.cause, is_takeover=fresh.is_takeover)


def _read(cohort: Cohort, state: CohortState, column: int, *, is_last: bool) -> _Round | None:
    """Run the detector on a column, for the rows that are due and have points there.

    Rows without a sufficient baseline are read in the last column only, to report that.
    """
    state.enter(column)
    due = state.is_due(column, is_last=is_last) & (cohort.items[:, column] > 0)
    due &= ~cohort.is_seed[:, column]
    if not is_last:
        due &= cohort.windows_before(column) >= cohort.enough
    enough = 0 if is_last else cohort.enough
    blocks = [
        found
        for rows in _split_blocks(cohort, column, np.flatnonzero(due))
        if (found := _read_block(cohort, state, column, rows, enough)) is not None
    ]
    if not blocks:
        return None
    all_rows, all_windows, all_readings = zip(*blocks, strict=True)
    rows, windows = np.concatenate(all_rows), np.concatenate(all_windows)
    readings = join_readings(all_readings)
    is_enough = windows >= cohort.enough
    scores = score_readings(
        readings,
        is_enough,
        cohort.watch,
        cohort.mode,
        by_z=cohort.detector.is_self_starting,
        sealed=cohort.reference[rows, 0],
    )
    is_new = state.is_new(column)[rows]
    return _Round(cohort, state, column, rows, is_new, readings, scores, windows)


def _split_blocks(cohort: Cohort, column: int, rows: Indices) -> Iterator[Indices]:
    """Yield the rows in blocks; rows are independent."""
    size = max(BLOCK_CELLS // (cohort.width_before(column) * cohort.parts.shape[2]), 1)
    for start in range(0, rows.size, size):
        yield rows[start : start + size]


def _read_block(
    cohort: Cohort, state: CohortState, column: int, rows: Indices, enough: int
) -> tuple[Indices, Floats, Readings] | None:
    """Return the rows with a sufficient baseline, their baseline lengths, and the readings."""
    first, last = int(rows[0]), int(rows[-1])
    some: Rows = slice(first, last + 1) if last - first + 1 == rows.size else rows
    used = state.baseline(cohort.trailing(column, state.since, some), some)
    windows = used.windows
    is_enough = windows >= enough
    if not is_enough.all():
        if not is_enough.any():
            return None
        rows, windows, used = rows[is_enough], windows[is_enough], used.only(is_enough)
        some = rows
    readings = cohort.detector.judge(cohort.sample(column, some, used), cohort.options)
    return rows, windows, readings


def _share_allowance(cohorts: Sequence[tuple[Cohort, CohortState]]) -> Mapping[int, Floats]:
    """Return the share of its asset's allowed warnings that each series has, by id of the cohort.

    An asset with more metrics than ``METRICS_IN_FULL`` shares the allowance of that many.
    """
    pairs = {(one.asset, one.metric) for cohort, _ in cohorts for one in cohort.series}
    metrics = Counter(asset for asset, _ in pairs)
    return {
        id(cohort): METRICS_IN_FULL
        / np.maximum([metrics[one.asset] for one in cohort.series], float(METRICS_IN_FULL))
        for cohort, _ in cohorts
    }


def _measure_rarities(
    rounds: Sequence[_Round], policy: DriftPolicy, shares: Mapping[int, Floats]
) -> list[Rarity]:
    """Return how rare each reading is, and how rare it must be for a warning.

    By year: how often a healthy metric reads like this in a year, against what the watch allows. By
    tick, if the policy sets ``q``: Benjamini-Hochberg over every judged series.
    """
    if policy.q is None:
        return [
            _scale_to_year(found, policy.allowed_a_year(found.cohort.watch), shares)
            for found in rounds
        ]
    p_values = [np.where(r.scores.is_judged, r.readings.p_value, np.nan) for r in rounds]
    joined = np.concatenate([*p_values, np.empty(0)])
    known = np.isfinite(joined)
    adjusted = np.full(joined.shape, np.nan)
    adjusted[known] = benjamini_hochberg_p_values(joined[known])
    cuts = np.cumsum([p.size for p in p_values])[:-1]
    parts = np.split(adjusted, cuts) if rounds else []
    return [Rarity(part, np.full(part.shape, policy.q)) for part in parts]


def _scale_to_year(found: _Round, allowed: float, shares: Mapping[int, Floats]) -> Rarity:
    cohort, rows = found.cohort, found.rows
    looks = SECONDS_PER_YEAR / cohort.window_s[rows] / cohort.detector.windows_per_look
    if cohort.watch.harm != "both" and cohort.detector.is_directed:
        # Half of the changes of a healthy metric are in the harmless direction.
        looks /= 2
    return Rarity(found.readings.p_value * looks, allowed * shares[id(cohort)][rows])


def _judge(
    found: _Round, rarity: Rarity, policy: DriftPolicy, policy_digest: str, now: datetime
) -> CohortSignals:
    """Set the levels of a column, and update trails, baselines and episodes.

    Windows that were judged before leave the episodes as they are recorded.
    """
    cohort, state, rows, scores = found.cohort, found.state, found.rows, found.scores
    trail = Trail(*(scores_before[rows] for scores_before in state.trail)).followed_by(scores)
    state.trail.warn[rows], state.trail.breach[rows] = trail
    breached = find_breaches(trail, scores, found.baseline_windows, cohort.watch, policy)
    levels = grade_windows(
        found.readings, scores, breached.found, rarity, watch=cohort.watch, policy=policy
    )
    judgement = CohortSignals(
        column=found.column,
        rows=rows,
        readings=found.readings,
        scores=scores,
        baseline_windows=found.baseline_windows,
        rarity=rarity,
        levels=levels,
        by_mean=breached.by_mean,
    )
    is_alarm = _IS_ALARM[levels]
    if state.freezes:
        suspicious = (np.abs(scores.warn) >= cohort.watch.warn) & scores.harm
        fresh = rows[(is_alarm | suspicious) & ~state.is_frozen[rows]]
        if fresh.size:
            state.freeze(fresh, cohort.trailing(found.column, state.since, fresh))
    news = is_alarm & found.is_new
    if news.any():
        for row, signal in make_signals(cohort, judgement.only(news), policy):
            state.note(row, signal, policy_digest, found.column)
    _calm_down(found, is_alarm, now)
    return judgement


def _calm_down(found: _Round, is_alarm: NDArray[np.bool_], now: datetime) -> None:
    """Count quiet windows, close quiet episodes, and unfreeze baselines without an episode."""
    state, rows, watch = found.state, found.rows, found.cohort.watch
    is_quiet = found.scores.is_judged & (np.abs(found.scores.warn) < watch.clear_below) & ~is_alarm
    state.calm[rows] = np.where(is_quiet, state.calm[rows] + 1, 0)
    has_episode = state.has_episode(found.column)[rows]
    is_below = found.scores.is_judged & (np.abs(found.scores.warn) < watch.warn)
    state.unfreeze(rows[~has_episode & is_below & ~is_alarm])
    settled = has_episode & found.is_new & (state.calm[rows] >= watch.clear_windows)
    for at in np.flatnonzero(settled):
        row = int(rows[at])
        if state.episodes[row].level != "BREACH":
            window = found.cohort.window(row, int(found.cohort.index_of(found.column)[row]))
            cause = f"{watch.clear_windows} windows below {watch.clear_below:g} sigma"
            state.close(row, min(now, window.end), cause, "quiet")


def _list_signals(
    cohort: Cohort, state: CohortState, judgement: CohortSignals | None, policy: DriftPolicy
) -> Iterator[DriftSignal]:
    signals = {} if judgement is None else dict(make_signals(cohort, judgement, policy))
    for row, has_points in enumerate((cohort.items[:, -1] > 0).tolist()):
        signal = signals.get(row) if has_points else None
        if signal is None and cohort.is_foreign[row, -1] and cohort.raw_items[row, -1] > 0:
            signal = make_unserved_signal(cohort, row)
        if signal is None:
            signal = make_stale_signal(cohort, row)
        yield add_episode(signal, state.episodes.get(row), policy)


def add_episode(signal: DriftSignal, episode: Episode | None, policy: DriftPolicy) -> DriftSignal:
    """Return the signal with the level of its open episode, which holds until that closes."""
    if episode is None:
        return signal
    if policy.mode == "literal":
        return msgspec.structs.replace(signal, episode=episode.id)
    level = find_worst((signal.level, episode.level)) or signal.level
    reason = signal.reason
    if level != signal.level:
        reason = f"episode open since {episode.opened.start:%Y-%m-%d %H:%MZ}; now: {reason}"
    return msgspec.structs.replace(signal, level=level, reason=reason, episode=episode.id)
