"""The lifecycle on a real store: at once, tampered with, erased, and asked again."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from tests.release.lifecycle.replay import lifecycle_lines, replay

import gatemark
from gatemark.core.canonical import digest
from gatemark.core.errors import (
    ConflictError,
    IntegrityError,
    InvalidValueError,
    RefusedError,
    UsageError,
)
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.release.lifecycle.act import act, run_due
from gatemark.release.lifecycle.citations import result_ids
from gatemark.release.lifecycle.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    Demote,
    GrantRoles,
    Promote,
    PushWindow,
    RollBack,
    SetRequiredPack,
)
from gatemark.release.lifecycle.events.fact import fold
from gatemark.release.lifecycle.model.nouns import parse_version_ref
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.release.lifecycle.routing import route
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.release.lifecycle.views.history import asset_history
from gatemark.release.lifecycle.views.views import asset_card
from gatemark.release.lifecycle.views.why import explain_stage
from gatemark.workspace import Workspace

from .sealed import result, sealed_pack_identity
from .walker import PEOPLE, Clock
from .world import START, window

ASSET = "triage"


class Site:
    """A workspace with people, a clock, and a short way to say things."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.folder = folder
        self.workspace = Workspace(store=str(folder), clock=self.clock)
        for person, roles in PEOPLE.items():
            act(self.workspace, GrantRoles(actor="root", person=person, roles=roles))

    def candidate(self, version: str) -> str:
        return digest(version)

    def seal(self, version: str, **more: Any) -> str:
        self.clock.now += timedelta(minutes=1)
        title = f"{version} {self.clock.now}"
        made = result(ASSET, self.candidate(version), self.clock.now, title=title, **more)
        self.workspace.results.append(made)
        return made.id

    def add(self, version: str) -> None:
        content = self.candidate(version)
        act(
            self.workspace,
            AddVersion(actor="ann", asset=ASSET, kind="prompt", version=version, digest=content),
        )
        act(
            self.workspace,
            SetRequiredPack(actor="eve", asset=ASSET, required_pack=sealed_pack_identity(START)),
        )

    def promote(self, version: str, to: Any, *cites: str, actor: str = "olu", **more: Any) -> Any:
        command = Promote(
            actor=actor, asset=ASSET, version=version, to=to, result_ids=cites, **more
        )
        return act(self.workspace, command)

    def approve(self, version: str, stage: Any, *cites: str, actor: str = "bob") -> Any:
        return act(
            self.workspace,
            Approve(
                actor=actor,
                asset=ASSET,
                version=version,
                stage=stage,
                result_ids=cites,
                note="read the results",
            ),
        )

    def to_shadow(self, version: str) -> str:
        self.add(version)
        self.promote(version, "evaluating", actor="ann")
        sealed = self.seal(version)
        self.promote(version, "eligible", sealed, actor="eve")
        self.promote(version, "shadow")
        return sealed

    def enable(self, version: str) -> str:
        sealed = self.to_shadow(version)
        self.approve(version, "enabled")
        self.promote(version, "enabled")
        return sealed

    def canary(self, version: str, live: str) -> None:
        # These tests are about what follows, not about the day in shadow that is the default.
        act(self.workspace, AdoptPolicy(actor="root", policy=ReleasePolicy(name="no-wait")))
        self.to_shadow(version)
        compared = self.seal(version, baseline=self.candidate(live))
        self.approve(version, "canary_1", compared)
        self.promote(version, "canary_1", compared)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "store")
    yield made
    made.workspace.store.close()


def stage(site: Site, version: str) -> str:
    return read_state(site.workspace, ASSET).asset.track("production", version).stage


def tamper(site: Site, statement: str, *values: object) -> None:
    connection = sqlite3.connect(site.folder / "gatemark.sqlite3")
    triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in triggers.fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def test_two_promotions_at_once_have_one_winner(site: Site) -> None:
    site.add("1.0.0")
    outcomes: list[str] = []
    gate = threading.Barrier(4)

    def try_it() -> None:
        workspace = Workspace(store=str(site.folder), clock=site.clock)
        gate.wait()
        try:
            act(workspace, Promote(actor="ann", asset=ASSET, version="1.0.0", to="evaluating"))
            outcomes.append("won")
        except RefusedError as refused:
            outcomes.append(str(refused))
        workspace.store.close()

    threads = [threading.Thread(target=try_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("won") == 1
    assert all("cannot go from evaluating to evaluating" in o for o in outcomes if o != "won")


def test_threads_that_share_a_workspace_see_whole_states(site: Site) -> None:
    site.enable("1.0.0")
    problems: list[BaseException] = []
    names = [f"2.{at}.0" for at in range(12)]

    def add(mine: list[str]) -> None:
        try:
            for name in mine:
                site.add(name)
                site.promote(name, "evaluating", actor="ann")
        except BaseException as error:  # noqa: BLE001 - handed to the test
            problems.append(error)

    def look() -> None:
        try:
            for _ in range(20):
                found = route(site.workspace, ASSET).primary
                assert found is not None
                assert asset_card(site.workspace, ASSET).enabled == "1.0.0"
        except BaseException as error:  # noqa: BLE001 - handed to the test
            problems.append(error)

    threads = [threading.Thread(target=add, args=(names[at::3],)) for at in range(3)]
    threads += [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert all(stage(site, name) == "evaluating" for name in names)
    assert replay(site.workspace.events, ASSET) == read_state(site.workspace, ASSET)


ENABLE = """
import sys
from datetime import datetime
from gatemark.core.errors import RefusedError
from gatemark.workspace import Workspace
from gatemark.release.lifecycle.commands import Promote
from gatemark.release.lifecycle.act import act
folder, version, now = sys.argv[1:]
workspace = Workspace(store=folder, clock=lambda: datetime.fromisoformat(now))
workspace.events.head()
sys.stdin.readline()
try:
    act(workspace, Promote(actor="olu", asset="triage", version=version, to="enabled"))
    print("won")
except RefusedError as refused:
    print(refused)
"""


def test_two_processes_that_enable_two_versions_leave_one_enabled(site: Site) -> None:
    for version in ("1.0.0", "1.1.0"):
        site.to_shadow(version)
        site.approve(version, "enabled")
    now = site.clock.now.isoformat()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ENABLE, str(site.folder), version, now],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for version in ("1.0.0", "1.1.0")
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
    assert told[1] == "won"
    assert "no version is enabled" in told[0]
    assert sorted((stage(site, "1.0.0"), stage(site, "1.1.0"))) == ["enabled", "shadow"]


def test_a_writer_who_is_always_too_late_gives_up_cleanly(site: Site) -> None:
    site.add("1.0.0")
    real = site.workspace.events

    class Busy:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def append(self, drafts: Any, expected: Any = None) -> Any:
            raise ConflictError("somebody was faster")

    site.workspace.store.events = Busy()  # type: ignore[misc]
    before = real.head()
    with pytest.raises(ConflictError, match="50 times in a row"):
        site.promote("1.0.0", "evaluating", actor="ann")
    assert real.head() == before


def test_a_tampered_result_is_not_cited(site: Site) -> None:
    site.add("1.0.0")
    site.promote("1.0.0", "evaluating", actor="ann")
    failed = site.seal("1.0.0", verdict="fail")
    tamper(
        site,
        'UPDATE results SET document = replace(document, \'"verdict":"fail"\', '
        '\'"verdict":"pass"\') WHERE id = ?',
        failed,
    )
    with pytest.raises(IntegrityError):
        site.promote("1.0.0", "eligible", failed, actor="eve")
    assert stage(site, "1.0.0") == "evaluating"


def test_a_version_whose_result_was_tampered_with_is_no_longer_routed(site: Site) -> None:
    sealed = site.enable("1.0.0")
    assert route(site.workspace, ASSET).primary is not None
    tamper(
        site, "UPDATE results SET document = replace(document, 'exam', 'axam') WHERE id = ?", sealed
    )
    tamper(
        site,
        'UPDATE results SET document = replace(document, \'"python":"3"\', \'"python":"4"\')'
        " WHERE id = ?",
        sealed,
    )
    found = route(site.workspace, ASSET)
    assert found.primary is None
    assert "does not verify" in str(found.reason)
    told = explain_stage(site.workspace, parse_version_ref(f"{ASSET}@1.0.0"))
    assert [one.worth for one in told.citations] == ["changed"]
    assert told.problems


def test_a_tampered_result_does_not_stop_a_rollback(site: Site) -> None:
    first = site.enable("1.0.0")
    site.clock.now += timedelta(hours=25)
    run_due(site.workspace, ASSET, "production")
    site.canary("2.0.0", "1.0.0")
    site.promote("2.0.0", "enabled", incident="INC-3", note="now")
    tamper(site, "UPDATE results SET verdict = 'fail', document = x'7b7d' WHERE id = ?", first)
    acted = act(site.workspace, RollBack(actor="olu", asset=ASSET, stop=True))
    assert [fact.after for fact in acted.facts] == ["rolled_back"]  # type: ignore[union-attr]
    assert route(site.workspace, ASSET).primary is None


def test_an_edited_event_stops_every_decision(site: Site) -> None:
    site.enable("1.0.0")
    tamper(site, "UPDATE events SET actor = 'mallory' WHERE kind = 'approval'")
    fresh = Workspace(store=str(site.folder), clock=site.clock)
    with pytest.raises(IntegrityError):
        act(fresh, Demote(actor="olu", asset=ASSET, note="complaints", stop=True))


def test_evidence_that_was_changed_is_no_evidence(site: Site) -> None:
    from gatemark.core.canonical import digest_bytes
    from gatemark.core.result import Blob, seal

    site.add("1.0.0")
    site.promote("1.0.0", "evaluating", actor="ann")
    made = result(ASSET, site.candidate("1.0.0"), site.clock.now)
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    for name in ("id", "stamp", "schema"):
        del fields[name]
    blob = Blob("answers", digest_bytes(b"answers"), "text/plain")
    made = seal(**{**fields, "blobs": (blob,), "evidence": ()})
    site.workspace.results.append(made)
    with pytest.raises(IntegrityError, match="missing"):
        site.promote("1.0.0", "eligible", made.id, actor="eve")
    site.workspace.blobs.put(b"answers")
    hexadecimal = blob.digest.removeprefix("sha256:")
    path = site.folder / "blobs" / hexadecimal[:2] / hexadecimal
    path.write_bytes(b"others!")
    with pytest.raises(IntegrityError, match="were changed"):
        site.promote("1.0.0", "eligible", made.id, actor="eve")


def test_only_new_answers_are_fresh_evidence(site: Site) -> None:
    site.add("1.0.0")
    site.promote("1.0.0", "evaluating", actor="ann")
    at = site.clock.now
    first = result(ASSET, site.candidate("1.0.0"), at)
    site.workspace.results.append(first)
    site.promote("1.0.0", "eligible", first.id, actor="eve")
    site.promote("1.0.0", "shadow")
    act(
        site.workspace,
        Demote(actor=SYSTEM, asset=ASSET, version="1.0.0", note="complaints", stop=True),
    )
    site.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError, match="cannot go"):
        site.promote("1.0.0", "eligible", first.id, actor="eve")
    site.clock.now += timedelta(hours=1)
    again = result(ASSET, site.candidate("1.0.0"), site.clock.now, answered_at=at)
    assert again.id == first.id
    site.workspace.results.append(again)
    with pytest.raises(RefusedError, match="cannot go"):
        site.promote("1.0.0", "eligible", again.id, actor="eve")
    fresh = result(ASSET, site.candidate("1.0.0"), site.clock.now)
    site.workspace.results.append(fresh)
    assert site.promote("1.0.0", "eligible", fresh.id, actor="eve").is_change


def test_a_rollback_goes_on_when_the_clock_is_behind_the_whole_ledger(site: Site) -> None:
    site.enable("1.0.0")
    ahead = site.clock.now + timedelta(hours=2)
    site.workspace.events.append([EventDraft("noted", ahead, "other", "elsewhere", {})])
    with pytest.raises(RefusedError, match="clock went back"):
        site.promote("1.0.0", "retired")
    acted = act(site.workspace, RollBack(actor="olu", asset=ASSET, stop=True))
    assert acted.is_change
    assert acted.events[0].at == ahead


class WrittenVersion(msgspec.Struct):
    version: str
    digest: str
    author: str


class WrittenApproval(msgspec.Struct):
    candidate_digest: str
    result_ids: tuple[str, ...]
    policy_digest: str
    stage: str
    decision: Literal["approve", "reject", "abstain"]
    expires_at: datetime


class WrittenMove(msgspec.Struct):
    version: str
    candidate_digest: str
    before: str
    after: str
    cause: str
    environment: str
    result_ids: tuple[str, ...] = ()
    approvals: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    policy_digest: str | None = None


def test_what_others_read_of_decisions_is_in_the_events(site: Site) -> None:
    site.enable("1.0.0")
    wanted = {
        "asset_registered": WrittenVersion,
        "approval": WrittenApproval,
        "transition": WrittenMove,
    }
    seen = set()
    for event, payload in site.workspace.events.events(subject=ASSET):
        if event.kind in wanted:
            seen.add(event.kind)
            msgspec.convert(payload, wanted[event.kind])
    assert seen == set(wanted)


def test_the_state_follows_from_the_ledger_alone(site: Site) -> None:
    site.enable("1.0.0")
    site.canary("2.0.0", "1.0.0")
    fresh = Workspace(store=str(site.folder))
    assert replay(fresh.events, ASSET) == read_state(site.workspace, ASSET)


def test_an_actor_with_a_blank_in_the_name_is_refused(site: Site) -> None:
    with pytest.raises(InvalidValueError, match="invisible character"):
        act(site.workspace, GrantRoles(actor="root", person="two words", roles=("author",)))


def test_an_impossible_asset_name_is_refused(site: Site) -> None:
    for name in ("", "*", "a b", "-x", "x" * 129):
        with pytest.raises(RefusedError, match="asset"):
            act(site.workspace, Demote(actor="olu", asset=name, note="complaints", stop=True))


def test_history_tells_what_was_live_at_any_time(site: Site) -> None:
    site.enable("1.0.0")
    first = site.clock.now
    site.clock.now += timedelta(hours=25)
    run_due(site.workspace, ASSET, "production")
    site.canary("2.0.0", "1.0.0")
    site.promote("2.0.0", "enabled", incident="INC-3", note="1.0.0 leaks")
    now = asset_history(site.workspace, ASSET)
    assert [one.version for one in now.live] == ["2.0.0"]
    assert "break_glass by olu" in now.live[0].why
    then = asset_history(site.workspace, ASSET, at=first)
    assert [one.version for one in then.live] == ["1.0.0"]
    assert then.live[0].approved_by == ("bob",)
    before = asset_history(site.workspace, ASSET, at=START)
    assert [one.version for one in before.live] in ([], [None])
    assert any("BREAK-GLASS" in line.what for line in now.lines)
    spans = [(s.version, s.stage) for s in now.segments if s.stage == "enabled"]
    assert spans == [("1.0.0", "enabled"), ("2.0.0", "enabled")]
    with pytest.raises(UsageError, match="no asset nothing"):
        asset_history(site.workspace, "nothing")


def test_why_lists_the_citations_behind_a_stage(site: Site) -> None:
    sealed = site.enable("1.0.0")
    told = explain_stage(site.workspace, parse_version_ref(f"{ASSET}@1.0.0"))
    assert told.stage == "enabled"
    assert [(one.id, one.worth) for one in told.citations] == [(sealed, "verified")]
    assert [step.after for step in told.steps] == ["evaluating", "eligible", "shadow", "enabled"]
    assert [(vote.actor, vote.was_used) for vote in told.votes] == [("bob", True)]
    assert told.problems == ()
    with pytest.raises(UsageError, match="no version 9"):
        explain_stage(site.workspace, parse_version_ref(f"{ASSET}@9"))


def test_the_library_call_follows_the_ledger(site: Site) -> None:
    with pytest.raises(UsageError, match="no version may serve"):
        gatemark.assign(ASSET, "key", store=str(site.folder))
    site.enable("1.0.0")
    found = gatemark.assign(ASSET, "key", store=str(site.folder))
    assert (found.lane, found.target.version) == ("primary", "1.0.0")
    act(site.workspace, RollBack(actor="olu", asset=ASSET, stop=True))
    with pytest.raises(UsageError, match="no version may serve"):
        gatemark.assign(ASSET, "key", store=str(site.folder))


def test_the_package_has_no_other_lazy_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'resign'"):
        gatemark.resign  # noqa: B018


def test_a_fold_refuses_events_of_another_asset(site: Site) -> None:
    site.add("1.0.0")
    lines = list(lifecycle_lines(site.workspace.events, ASSET))
    with pytest.raises(IntegrityError, match="is about triage, not other"):
        fold("other", lines)


def test_unknown_digits_of_a_result_are_refused_and_other_words_are_bad_input(site: Site) -> None:
    sealed = site.seal("1.0.0")
    assert result_ids(site.workspace, [sealed[7:19], sealed]) == (sealed, sealed)
    assert result_ids(site.workspace, [digest("nowhere")]) == (digest("nowhere"),)
    with pytest.raises(RefusedError, match="holds no result"):
        result_ids(site.workspace, ["deadbeef"])
    with pytest.raises(UsageError, match="is not a result id"):
        result_ids(site.workspace, ["latest"])


def test_windows_of_a_canary_go_through_the_store(site: Site) -> None:
    site.enable("1.0.0")
    site.clock.now += timedelta(hours=25)
    run_due(site.workspace, ASSET, "production")
    site.canary("2.0.0", "1.0.0")
    for _ in range(2):
        behind = (site.clock.now - START) % timedelta(minutes=15)
        start = site.clock.now - behind + timedelta(minutes=15)
        site.clock.now = start + timedelta(minutes=15)
        pushed = window(start)
        fields = {name: getattr(pushed, name) for name in pushed.__struct_fields__}
        act(site.workspace, PushWindow(**{**fields, "actor": "eve", "asset": ASSET}))
        run_due(site.workspace, ASSET, "production")
    assert stage(site, "2.0.0") in ("canary_1", "canary_5")
    history = asset_history(site.workspace, ASSET)
    assert any("clean" in line.what for line in history.lines)
