"""One command for the common way: it goes as far as it may, and says who must do what next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.core.result import AssetRef
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.act import act, run_due
from gatemark.release.lifecycle.canary import canary_state
from gatemark.release.lifecycle.model.nouns import ShadowPairs, VersionRef
from gatemark.release.lifecycle.release import (
    ReleaseProgress,
    ReleaseRequest,
    missing_for_moves,
    release,
)
from gatemark.release.lifecycle.shadow import push_pairs

from .test_freshness import ASSET, Place
from .world import window


class ReleasePlace(Place):
    """A store in which commands by people are counted."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.command_count = 0

    def release(self, actor: str, version: str, **more: Any) -> ReleaseProgress:
        self.command_count += 1
        ref = VersionRef(asset=ASSET, version=version)
        return release(self.workspace, ReleaseRequest(ref=ref, actor=actor, **more))

    def run(self, names: dict[str, AssetRef]) -> None:
        """Stand for a run of the required pack: it seals a result that passed."""
        self.later(minutes=1)
        version = names["candidate"].id.partition("/")[2]
        baseline = names["baseline"].digest if "baseline" in names else None
        self.seal(version, baseline=baseline)

    def shadow_day(self) -> None:
        """A day of measurements beside the live version, pushed by a service."""
        start = self.now
        self.later(hours=25)
        pairs = ShadowPairs(
            start=start, end=self.now, n=60, agreed=58, candidate_errors=0, live_errors=0
        )
        ref = VersionRef(asset=ASSET, version="2.0.0")
        push_pairs(self.workspace, ref, [pairs], actor="ann")

    def clean_windows(self, count: int) -> None:
        for _ in range(count):
            start = canary_state(self.workspace, ASSET).next_window
            self.now = start + timedelta(minutes=30)
            pushed = window(start)
            act(self.workspace, msgspec.structs.replace(pushed, actor="ann", asset=ASSET))
            run_due(self.workspace, ASSET, "production")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, new_postgres_url: Callable[[], str]
) -> Iterator[ReleasePlace]:
    store = str(tmp_path / "store") if request.param == "sqlite" else new_postgres_url()
    made = ReleasePlace(store)
    made.enable_first()
    made.later(days=2)
    run_due(made.workspace, ASSET, "production")
    yield made
    assert verify(made.workspace, VerifyRequest()).issues == ()
    made.workspace.store.close()


def test_from_draft_to_enabled_takes_four_commands_by_people(place: ReleasePlace) -> None:
    place.command_count += 1  # gatemark asset add
    place.add("2.0.0")
    first = place.release("ann", "2.0.0", run=place.run)
    assert (first.stage, first.next_stage) == ("shadow", "canary_1")
    assert first.next_by == ("bob",)
    assert first.next_command == f'gatemark release {ASSET}@2.0.0 --approve --note "REASON"'
    assert [line for line in first.missing if "sign_off: 0 of 1 approvals" in line]
    assert [line for line in first.missing if "shadow must last 24 h" in line]
    assert [line for line in first.missing if "shadow must have 50 pairs with 1.0.0" in line]
    place.shadow_day()
    second = place.release("bob", "2.0.0", approve=True, note="read it")
    assert second.stage == "canary_1"
    assert second.missing == ("2 clean canary windows in a row, 0 so far (gatemark canary push)",)
    place.clean_windows(6)
    third = place.release("bob", "2.0.0", approve=True, note="read it")
    assert (third.stage, third.missing) == ("enabled", ())
    assert place.command_count == 4
    assert place.release("bob", "2.0.0").done == ()


def test_a_dry_run_writes_nothing(place: ReleasePlace) -> None:
    place.add("2.0.0")
    before = place.workspace.events.head()
    planned = place.release(
        "ann", "2.0.0", run=place.run, approve=True, note="read it", dry_run=True
    )
    assert planned.is_dry_run
    assert planned.done == ("draft → evaluating (promote)",)
    assert place.workspace.events.head() == before


def test_whoever_lacks_the_role_is_told_who_has_it(place: ReleasePlace) -> None:
    place.add("2.0.0")
    stopped = place.release("bob", "2.0.0")
    assert (stopped.stage, stopped.done) == ("draft", ())
    assert any("bob must be author, evaluator or system" in line for line in stopped.missing)
    assert stopped.next_by == ("ann",)


def test_why_says_what_is_missing_for_each_legal_step(place: ReleasePlace) -> None:
    place.add("2.0.0")
    place.to_shadow("2.0.0", place.seal("2.0.0"))
    ref = VersionRef(asset=ASSET, version="2.0.0")
    found = {one.stage: one for one in missing_for_moves(place.workspace, ref)}
    assert set(found) == {"canary_1", "enabled"}
    canary = "; ".join(found["canary_1"].missing)
    assert "sign_off: 0 of 1 approvals" in canary
    assert "no cited result compares with the live version 1.0.0" in canary
    assert any("only when no version is enabled" in line for line in found["enabled"].missing)
