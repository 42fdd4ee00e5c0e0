"""Points from sealed results: those of the version that served, and of no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.release.lifecycle.sealed import result

from gatemark.core.canonical import digest
from gatemark.core.measurement import measured
from gatemark.core.result import seal
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.release.drift.derive import Derived, DeriveRequest, derive_points
from gatemark.release.drift.open_stores import points_of
from gatemark.release.lifecycle.commands import Demote

from .live import ASSET, Live
from .series import day


@pytest.fixture
def live(tmp_path: Path) -> Live:
    return Live(str(tmp_path / "store"), tmp_path)


def reached(live: Live, version: str, accuracy: float, days: float) -> None:
    """A nightly result about a version."""
    made = result(ASSET, digest(version), day(days), title=f"{version} {days}")
    fields: dict[str, Any] = {
        name: getattr(made, name) for name in made.__struct_fields__ if name not in ("id", "stamp")
    }
    score = measured("score", accuracy, n=200, direction="higher_is_better", scope="golden")
    live.workspace.results.append(seal(**fields | {"measurements": (score,)}))


def derived(live: Live, days: float) -> Derived:
    return derive_points(
        live.workspace, DeriveRequest(results=True), ReadingChoices(), now=day(days)
    )


def values(live: Live) -> list[float]:
    (series,) = points_of(live.workspace).series(ASSET)
    return [point.a for point in points_of(live.workspace).points(series.id)]


def test_a_bad_candidate_says_nothing_about_the_version_that_serves(live: Live) -> None:
    live.enable()
    live.now = day(1)
    live.to_shadow("2.0.0")
    reached(live, "1.0.0", 0.9, 1.5)
    reached(live, "2.0.0", 0.1, 1.6)
    reached(live, "never-registered", 0.1, 1.7)
    found = derived(live, 3)
    assert found.pushed.added == 1
    assert found.not_served == 2 + 2, "and the two exams before anything was live"
    assert values(live) == [0.9]


def test_a_version_in_shadow_is_watched_when_nothing_else_serves(live: Live) -> None:
    live.enable()
    live.now = day(17)
    live.do(Demote, "olu", "1.0.0", to="shadow", note="it costs too much", stop=True)
    reached(live, "1.0.0", 0.8, 17.5)
    assert derived(live, 19).pushed.added == 1


def test_every_result_counts_of_an_asset_that_nobody_registered(live: Live) -> None:
    for number, version in enumerate(("a", "b")):
        reached(live, version, 0.5 + number / 10, number + 0.5)
    found = derived(live, 3)
    assert (found.pushed.added, found.not_served) == (2, 0)
    assert derived(live, 3).pushed == msgspec.structs.replace(
        found.pushed, added=0, repeated=2, series_added=0
    )


def test_windows_that_are_not_over_wait(live: Live) -> None:
    reached(live, "a", 0.5, 0.5)
    assert (derived(live, 0.9).open_windows, derived(live, 1).pushed.added) == (1, 1)
