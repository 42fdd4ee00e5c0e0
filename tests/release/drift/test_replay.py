"""What a probe finds follows from points, episodes and acts, whenever the probes before it ran."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatemark.core.errors import RefusedError
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.release.drift.close import CloseRequest, close_episode
from gatemark.release.drift.judging.policy import DriftPolicy, Watch
from gatemark.release.drift.open_stores import episodes_of

from .live import Live, lively, point
from .series import HEALTHY, Days, by_tick, day

values = st.one_of(
    st.none(),
    st.floats(8, 12).map(lambda value: round(value, 2)),
    st.floats(8, 12).map(lambda value: round(value, 2)),
    st.sampled_from([2.0, 6.0, 14.0, 18.0]),
)
runs = st.lists(st.tuples(values, st.integers(1, 4)), min_size=1, max_size=10)


def spread(drawn: list[tuple[float | None, int]]) -> list[float | None]:
    return [value for value, times in drawn for _ in range(times)]


@settings(deadline=None, max_examples=60)
@given(
    runs,
    st.sets(st.integers(1, 40), max_size=8),
    st.sampled_from(["sigma", "shift", "ewma"]),
    st.sampled_from(["literal", "corrected"]),
)
@pytest.mark.parametrize("asked", [{}, {"q": None}], ids=["by tick", "by year"])
def test_probes_at_any_times_find_the_same_episodes(
    asked: dict[str, Any],
    drawn: list[tuple[float | None, int]],
    stops: set[int],
    detector: str,
    mode: str,
) -> None:
    rows = [*HEALTHY, *spread(drawn)][: len(HEALTHY) + 28]
    watch = Watch(metric="*", detector=detector, warn_only=detector == "ewma")
    daily, seldom = (Days(rows, watch=watch, mode=mode, **asked) for _ in range(2))
    for number in range(len(HEALTHY), len(rows)):
        daily.tick(number)
    for number in sorted(stop for stop in stops if len(HEALTHY) <= stop < len(rows)):
        seldom.tick(number)
    assert daily.at(len(rows)) == seldom.at(len(rows))
    assert daily.open == seldom.open
    assert daily.past == seldom.past
    assert msgspec.json.encode(daily.closed) == msgspec.json.encode(seldom.closed)


class Step(NamedTuple):
    """A day's points, by how many days before it their window was, and what else happens."""

    points: list[tuple[int, float]]
    is_closed_by_hand: bool
    policy: int


steps = st.lists(
    st.builds(
        Step,
        st.lists(
            st.tuples(
                st.sampled_from([1, 1, 1, 1, 2, 3, 6]),
                st.sampled_from([9.0, 9.5, 10.0, 10.4, 11.0, 6.0, 3.0]),
            ),
            max_size=3,
        ),
        st.sampled_from([False, False, False, True]),
        st.sampled_from([0, 0, 0, 0, 1]),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.sampled_from(["literal", "corrected"]), st.booleans())
def test_nothing_but_the_store_leads_from_one_probe_to_the_next(
    tmp_path_factory: pytest.TempPathFactory, days: list[Step], mode: Any, is_built_in: bool
) -> None:
    first = DriftPolicy(mode=mode) if is_built_in else by_tick(mode=mode)
    policies = (first, by_tick(mode=mode, q=0.06))
    once, often = (_follow(tmp_path_factory.mktemp("store"), days, policies, n) for n in (1, 2))
    assert once == often


def _follow(
    folder: Path, days: list[Step], policies: tuple[DriftPolicy, ...], probes: int
) -> list[bytes]:
    """Return what each probe found and what the store holds at the end, as bytes.

    With several probes a day, each has a process's view of its own, and a dry run goes before it.
    """
    live = Live(str(folder / "store"), folder)
    live.push(0, lively())
    live.probe(len(lively()), policy=policies[0])
    found = []
    for number, step in enumerate(days, start=len(lively()) + 1):
        if step.points:
            lines = [point(number - back, value) for back, value in step.points]
            live.push_lines(lines, day(number))
        for count in range(probes):
            if probes > 1:
                live.workspace.store.close()
                live = Live(str(folder / "store"), folder)
                live.probe(number, policy=policies[step.policy], dry_run=True)
            report = live.probe(number, policy=policies[step.policy])
            if count == 0:
                found.append(msgspec.json.encode((report.signals, report.episodes, report.closed)))
                found.append(repr((report.actions, report.notes)).encode())
        if step.is_closed_by_hand and report.episodes:
            worst = min(report.episodes, key=lambda episode: (episode.level, episode.id))
            request = CloseRequest(episode=worst.id, actor="olu", reason="a new normal")
            with suppress(RefusedError):
                close_episode(live.workspace, request, day(number + 0.1))
    found.append(msgspec.json.encode(episodes_of(live.workspace).episodes()))
    found.append(msgspec.json.encode(episodes_of(live.workspace).acts()))
    for kind in ("drift_signal", "drift_recorded", "points_pushed"):
        payloads = [payload | {"tick": None} for _, payload in live.events(kind)]
        found.append(msgspec.json.encode(payloads))
    assert verify_ledger(live.workspace.store).issues == ()
    live.workspace.store.close()
    return found
