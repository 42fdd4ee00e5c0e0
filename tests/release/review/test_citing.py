"""A promotion may cite a review of its own candidate, and of no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.scene import ASSET, Scene, new_scene

from gatemark.core.canonical import digest
from gatemark.core.errors import RefusedError, UsageError
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.citations import summed_up
from gatemark.release.review.close import CloseReview, close_review
from gatemark.release.review.create import CreateReview, create_review
from gatemark.release.review.open_stores import reviews_of
from gatemark.server.views.approvals import sealed_results

from .arms import prefers, vote_all, write_arm


def reviewed(scene: Scene, folder: Path, **assets: str) -> str:
    files = {arm: write_arm(folder, arm, 24) for arm in ("new", "old")}
    request = CreateReview(
        name="letters", candidates=("new",), baseline="old", files=files, assets=assets
    )
    create_review(scene.workspace.acting_as("eve"), request)
    vote_all(scene.workspace, "bob", prefers("new"))
    outcome: Any = close_review(scene.workspace.acting_as("eve"), CloseReview(review="letters"))
    return str(outcome.candidates[0].result_id)


@pytest.fixture
def scene(tmp_path: Path) -> Any:
    made = new_scene(tmp_path)
    for version in ("1.0.0", "2.0.0"):
        made.add(version)
        made.promote(version, "evaluating", actor="ann")
    yield made
    made.workspace.store.close()


def test_a_review_of_the_candidate_is_cited_beside_the_required_pack(
    scene: Scene, tmp_path: Path
) -> None:
    review = reviewed(scene, tmp_path, new=f"{ASSET}@2.0.0", old=f"{ASSET}@1.0.0")
    sealed = scene.workspace.results.get(review)
    assert sealed.candidate is not None
    assert (sealed.candidate.id, sealed.candidate.digest) == (f"{ASSET}/2.0.0", digest("2.0.0"))
    assert sealed.baseline is not None
    assert sealed.baseline.digest == digest("1.0.0")
    scene.promote("2.0.0", "eligible", scene.seal("2.0.0"), review, actor="eve")
    told = summed_up(sealed, scene.workspace.blobs)
    assert told.candidate_digest == digest("2.0.0")
    assert review in {one.result_id for _, one in sealed_results(scene.workspace, ASSET)}
    assert verify(scene.workspace, VerifyRequest()).issues == ()


def test_a_review_of_another_candidate_is_refused(scene: Scene, tmp_path: Path) -> None:
    review = reviewed(scene, tmp_path, new=f"{ASSET}@1.0.0")
    with pytest.raises(RefusedError) as refused:
        scene.promote("2.0.0", "eligible", scene.seal("2.0.0"), review, actor="eve")
    assert "about another candidate" in "\n".join(refused.value.lines())


def test_a_review_of_nobody_in_particular_is_refused(scene: Scene, tmp_path: Path) -> None:
    review = reviewed(scene, tmp_path)
    with pytest.raises(RefusedError) as refused:
        scene.promote("2.0.0", "eligible", scene.seal("2.0.0"), review, actor="eve")
    assert "names no candidate" in "\n".join(refused.value.lines())


@pytest.mark.parametrize(
    ("assets", "problem"),
    [
        ({"new": f"{ASSET}@9.9.9"}, "no version 9.9.9"),
        ({"new": "nothing"}, "ASSET@VERSION"),
        ({"other": f"{ASSET}@1.0.0"}, "not an arm"),
    ],
)
def test_an_arm_cannot_be_called_what_nobody_registered(
    scene: Scene, tmp_path: Path, assets: dict[str, str], problem: str
) -> None:
    with pytest.raises((UsageError, ValueError), match=problem):
        reviewed(scene, tmp_path, **assets)


def test_a_plan_is_sealed_with_its_versions_and_rules(scene: Scene, tmp_path: Path) -> None:
    reviewed(scene, tmp_path)
    stored = reviews_of(scene.workspace).stored_rows("letters").review
    plan = msgspec.json.decode(stored.plan)
    assert (plan["assets"], plan["rules"]) == ({}, 1)
