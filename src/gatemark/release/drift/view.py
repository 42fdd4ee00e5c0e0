"""``gatemark drift report``: the windows, episodes and acts of one asset."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from gatemark.core.errors import UsageError
from gatemark.release.drift.assets import find_latest_stage
from gatemark.release.drift.cohorts import gather
from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.judging.cohort import Cohort
from gatemark.release.drift.judging.cohort_state import CohortState
from gatemark.release.drift.judging.parts import SCALARS, values_of
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.judging.signals import CohortSignals, make_signals
from gatemark.release.drift.judging.tick import judge_tick
from gatemark.release.drift.open_stores import episodes_of
from gatemark.release.drift.probe import Evaluation, evaluate
from gatemark.release.drift.views.views import ActView, DriftView, SeriesView, WindowView
from gatemark.workspace import Workspace

WINDOWS: Final = 60
_Key = tuple[int, int, int]


def drift_view(workspace: Workspace, policy: DriftPolicy, asset: str, now: datetime) -> DriftView:
    """Return the drift of one asset; its windows are judged again for the chart."""
    found = evaluate(workspace, policy, now, asset)
    if not found.signals:
        raise UsageError(
            f"no points of {asset} were pushed yet; push some with 'gatemark drift push'"
        )
    shown = _replay_windows(workspace, policy, now, found)
    episodes = episodes_of(workspace).episodes(asset)
    metrics = {episode.id: episode.metric for episode in episodes}
    acts = episodes_of(workspace).acts(list(metrics)) if metrics else []
    version, stage = find_latest_stage(workspace, asset)
    return DriftView(
        asset=asset,
        kind=found.kinds.get(asset),
        stage=stage,
        version=version,
        at=now,
        policy=policy.name,
        mode=policy.mode,
        policy_digest=policy.digest,
        series=shown,
        episodes=tuple(episodes),
        acts=tuple(
            ActView(
                at=act.at,
                metric=metrics[act.episode],
                level=act.level,
                act=act.act,
                outcome=act.outcome,
                events=act.events,
            )
            for act in acts
        ),
    )


def _replay_windows(
    workspace: Workspace, policy: DriftPolicy, now: datetime, found: Evaluation
) -> tuple[SeriesView, ...]:
    """Return the windows of each series, judged from the first to the last."""
    wide = msgspec.structs.replace(policy, catch_up=WINDOWS)
    gathered = gather(workspace, wide, now, found.kinds, found.series, history=found.history)
    judged: dict[_Key, WindowView] = {}
    pairs = []
    for cohort in gathered.cohorts:
        state = CohortState(cohort)
        state.since = CohortState(cohort, found.episodes).since
        pairs.append((cohort, state))
    numbers = {id(cohort): number for number, cohort in enumerate(gathered.cohorts)}

    def note(cohort: Cohort, judgement: CohortSignals) -> None:
        for row, signal in make_signals(cohort, judgement, wide):
            window = cohort.window(row, int(cohort.index_of(judgement.column)[row]))
            judged[numbers[id(cohort)], row, judgement.column] = WindowView(
                start=window.start,
                end=window.end,
                n=signal.n,
                value=signal.value,
                mu=signal.mu,
                sd=signal.sd,
                z=signal.z,
                level=signal.level,
            )

    judge_tick(pairs, wide, now, on_judged=note)
    signals = {(s.metric, s.detector): s for s in found.signals}
    # Where the probe cannot judge, the finding of the shift watch is shown.
    lasting = {one.name for one in detectors() if one.is_self_starting}
    instead = {s.metric: s for s in found.by_metric() if s.detector in lasting}
    views: dict[tuple[str, str], SeriesView] = {}
    # A shift watch would repeat the values of the probe for the same metric.
    ordered = sorted(
        enumerate(gathered.cohorts), key=lambda pair: pair[1].detector.is_self_starting
    )
    for number, cohort in ordered:
        for row, series in enumerate(cohort.series):
            key = (series.metric, cohort.detector.name)
            if cohort.detector.is_self_starting and any(
                series.metric == shown for shown, _ in views
            ):
                continue
            views[key] = SeriesView(
                metric=series.metric,
                detector=cohort.detector.name,
                warn=cohort.watch.warn,
                breach=cohort.watch.breach,
                signal=instead.get(series.metric, signals[key]),
                windows=_list_windows(cohort, row, number, judged, WINDOWS),
            )
    watches = {(watch.metric, watch.detector): watch for watch in policy.watches}
    # Metrics that must be watched and were never pushed.
    for key in (signals.keys() - views.keys()) & watches.keys():
        if signals[key].window is None:
            watch = watches[key]
            views[key] = SeriesView(
                metric=watch.metric,
                detector=watch.detector,
                warn=watch.warn,
                breach=watch.breach,
                signal=signals[key],
                windows=(),
            )
    return tuple(views[key] for key in sorted(views))


def _list_windows(
    cohort: Cohort, row: int, number: int, judged: dict[_Key, WindowView], wanted: int
) -> tuple[WindowView, ...]:
    """Return the latest windows of a series, from the first that has points."""
    columns = range(max(cohort.columns - wanted, 0), cohort.columns)
    views = [
        judged.get((number, row, column)) or _make_unjudged_window(cohort, row, column)
        for column in columns
    ]
    first = next((at for at, view in enumerate(views) if view.n), len(views) - 1)
    return tuple(views[first:])


def _make_unjudged_window(cohort: Cohort, row: int, column: int) -> WindowView:
    """Return a window that was not judged, with its value if it has one."""
    window = cohort.window(row, int(cohort.index_of(column)[row]))
    value = None
    if cohort.items[row, column] > 0 and cohort.form in SCALARS:
        chosen = (slice(row, row + 1), slice(column, column + 1))
        if cohort.detector.name != "ece_excess":
            value = float(values_of(cohort.form, cohort.items[chosen], cohort.parts[chosen])[0, 0])
    return WindowView(
        start=window.start,
        end=window.end,
        n=int(cohort.raw_items[row, column]),
        value=value,
        mu=None,
        sd=None,
        z=None,
        level=None,
    )
