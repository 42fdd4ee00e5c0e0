"""Evidence is as old as its answers: judging them again, by whomever, does not renew them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.core.canonical import digest
from gatemark.core.errors import RefusedError, UsageError
from gatemark.core.result import Result, answer_time_of
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.packs.gate import gate_result
from gatemark.packs.init import write_starter
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_pack import run_pack
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.assets import NewVersion, RequirePack, add_version, require_pack
from gatemark.release.lifecycle.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    Demote,
    GrantRoles,
    Promote,
    SetRequiredPack,
)
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.workspace import Workspace

from .sealed import result, sealed_pack_identity

START = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
ASSET = "parcel-mail"


class Place:
    """A store with people and a clock that stands still."""

    def __init__(self, store: str) -> None:
        self.now = START
        self.workspace = Workspace(store=store, clock=lambda: self.now, actor="ann")
        roles: dict[str, Any] = {
            "ada": ("admin",),
            "ann": ("author", "evaluator", "operator"),
            "pam": ("pack_owner",),
            "bob": ("approver",),
        }
        for person, held in roles.items():
            act(self.workspace, GrantRoles(actor="ada", person=person, roles=held))

    def later(self, **span: float) -> None:
        self.now += timedelta(**span)

    def seal(self, version: str, **more: Any) -> str:
        """A result of the required pack about a version, judged now."""
        sealed = result(ASSET, digest(version), self.now, **more)
        self.workspace.results.append(sealed)
        return sealed.id

    def add(self, version: str) -> None:
        act(
            self.workspace,
            AddVersion(
                actor="ann", asset=ASSET, kind="prompt", version=version, digest=digest(version)
            ),
        )
        act(
            self.workspace,
            SetRequiredPack(actor="pam", asset=ASSET, required_pack=sealed_pack_identity(self.now)),
        )

    def promote(self, version: str, to: Any, *cites: str) -> None:
        command = Promote(actor="ann", asset=ASSET, version=version, to=to, result_ids=cites)
        act(self.workspace, command)

    def approve(self, version: str, stage: Any, *cites: str) -> None:
        act(
            self.workspace,
            Approve(
                actor="bob",
                asset=ASSET,
                version=version,
                stage=stage,
                result_ids=cites,
                note="read the results",
            ),
        )

    def to_shadow(self, version: str, cited: str) -> None:
        self.promote(version, "evaluating")
        self.promote(version, "eligible", cited)
        self.promote(version, "shadow")

    def enable_first(self) -> None:
        self.add("1.0.0")
        self.to_shadow("1.0.0", self.seal("1.0.0"))
        self.approve("1.0.0", "enabled")
        self.promote("1.0.0", "enabled")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, new_postgres_url: Callable[[], str]
) -> Iterator[Place]:
    store = str(tmp_path / "store") if request.param == "sqlite" else new_postgres_url()
    made = Place(store)
    yield made
    assert verify(made.workspace, VerifyRequest()).issues == ()
    made.workspace.store.close()


def refusal(step: Callable[[], object]) -> str:
    with pytest.raises(RefusedError) as refused:
        step()
    return "\n".join(refused.value.lines())


def test_judging_old_answers_again_does_not_renew_the_30_days(place: Place) -> None:
    place.add("1.0.0")
    old = place.seal("1.0.0")
    place.promote("1.0.0", "evaluating")
    place.later(days=31)
    assert place.seal("1.0.0", answered_at=START) == old
    assert "must be at most 720 h old, got 744.0 h" in refusal(
        lambda: place.promote("1.0.0", "eligible", old)
    )
    place.promote("1.0.0", "eligible", place.seal("1.0.0"))


def test_after_a_fall_only_new_answers_lead_back(place: Place) -> None:
    place.enable_first()
    place.later(days=1)
    act(place.workspace, Demote(actor="ann", asset=ASSET, version="1.0.0", note="drift", stop=True))
    place.later(days=1)
    old = place.seal("1.0.0", answered_at=START + timedelta(hours=23))
    place.promote("1.0.0", "evaluating")
    assert "is older than the demotion" in refusal(lambda: place.promote("1.0.0", "eligible", old))
    place.promote("1.0.0", "eligible", place.seal("1.0.0"))


def test_the_comparison_in_shadow_needs_answers_given_in_shadow(place: Place) -> None:
    act(place.workspace, AdoptPolicy(actor="ada", policy=ReleasePolicy(name="unmeasured")))
    place.enable_first()
    place.later(days=2)
    live = digest("1.0.0")
    place.add("2.0.0")
    before = place.seal("2.0.0", baseline=live)
    place.later(hours=1)
    place.to_shadow("2.0.0", before)
    place.later(days=1)
    place.seal("2.0.0", baseline=live, answered_at=START + timedelta(days=2))
    place.approve("2.0.0", "canary_1")
    said = refusal(lambda: place.promote("2.0.0", "canary_1"))
    assert "no cited result compares with the live version 1.0.0" in said
    assert "by answers given after 2027-03-03 09:00:00Z" in said
    fresh = place.seal("2.0.0", baseline=live)
    place.approve("2.0.0", "canary_1", fresh)
    place.promote("2.0.0", "canary_1", fresh)


def test_a_result_without_answer_times_renews_nothing(place: Place) -> None:
    act(place.workspace, AdoptPolicy(actor="ada", policy=ReleasePolicy(name="unmeasured")))
    place.add("1.0.0")
    place.promote("1.0.0", "evaluating")
    silent = place.seal("1.0.0", is_timed=False)
    said = refusal(lambda: place.promote("1.0.0", "eligible", silent))
    assert "does not say when its answers were given" in said
    place.promote("1.0.0", "eligible", place.seal("1.0.0", title="timed"))
    place.promote("1.0.0", "shadow")
    place.approve("1.0.0", "enabled")
    place.promote("1.0.0", "enabled")
    place.later(days=2)
    place.add("2.0.0")
    place.to_shadow("2.0.0", place.seal("2.0.0"))
    place.later(days=1)
    silent = place.seal("2.0.0", baseline=digest("1.0.0"), is_timed=False)
    place.approve("2.0.0", "canary_1", silent)
    said = refusal(lambda: place.promote("2.0.0", "canary_1", silent))
    assert "no cited result compares with the live version 1.0.0" in said
    act(place.workspace, Demote(actor="ann", asset=ASSET, version="1.0.0", note="drift", stop=True))
    place.later(days=1)
    place.promote("1.0.0", "evaluating")
    silent = place.seal("1.0.0", is_timed=False, title="judged after the fall")
    said = refusal(lambda: place.promote("1.0.0", "eligible", silent))
    assert "does not say when its answers were given" in said


def answers_of(workspace: Workspace, sealed: Result, path: Path, *, with_times: bool) -> Path:
    """Write the candidate's answers to a file, as another tool would have recorded them."""
    lines = []
    for blob in sealed.blobs:
        if blob.name.endswith(".candidate.jsonl"):
            for line in workspace.blobs.get(blob.digest).splitlines():
                sample = msgspec.json.decode(line)
                if not with_times:
                    del sample["answered_at"]
                lines.append(msgspec.json.encode(sample))
    path.write_bytes(b"\n".join(lines))
    return path


def test_runs_and_judgements_know_when_the_answers_were_given(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "store"))
    workspace = place.workspace
    write_starter(tmp_path / "evals")
    pack = str(tmp_path / "evals" / "pack.yaml")

    def run(**choices: Any) -> Result:
        return run_pack(workspace, pack, RunChoices(jobs=4, **choices))

    live = run()
    assert _answered(live) == START
    # Judged again by somebody else, much later: the same result, and no younger.
    place.later(days=31)
    again = gate_result(workspace.acting_as("eve"), live.id, pack)
    assert (again.id, again.actor, _answered(again)) == (live.id, "eve", START)
    # Recorded answers keep their time, and nobody can state another one.
    timed = {
        "recorded": str(answers_of(workspace, live, tmp_path / "timed.jsonl", with_times=True))
    }
    assert _answered(run(candidate=timed)) == START
    with pytest.raises(UsageError, match="is for answers that do not say"):
        run(candidate=timed, answered_at=place.now)
    # Answers that do not say when hold every step, until somebody states it.
    silent_path = answers_of(workspace, live, tmp_path / "silent.jsonl", with_times=False)
    silent = run(candidate={"recorded": str(silent_path)})
    assert answer_time_of(silent) is None
    new = NewVersion(asset=ASSET, version="1.0.0", kind="classifier", result=silent.id)
    add_version(workspace, new, actor="ann")
    require_pack(workspace, RequirePack(asset=ASSET, pack=pack), actor="pam")
    place.promote("1.0.0", "evaluating")
    said = refusal(lambda: place.promote("1.0.0", "eligible", silent.id))
    assert "does not say when its answers were given" in said
    assert "gatemark run --answered-at TIME" in said
    stated = run(
        candidate={"recorded": str(silent_path)}, answered_at=place.now - timedelta(days=3)
    )
    assert any("ann states that the answers are from 2027-03-29" in one for one in stated.caveats)
    assert answer_time_of(gate_result(workspace, stated.id, pack)) == answer_time_of(stated)
    place.promote("1.0.0", "eligible", stated.id)
    assert verify(workspace, VerifyRequest(rescore=True)).issues == ()
    workspace.store.close()


def _answered(sealed: Result) -> datetime:
    answered = answer_time_of(sealed)
    assert answered is not None
    return answered.at
