"""A server on whose pages every form of an asset is found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Client
from tests.server.failures import add_failure
from tests.server.review_set import SHORT, WARM, write_samples
from tests.server.scene import ASSET, Scene, new_scene

from gatemark.cli.main import main
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import PauseVersion, Promote
from gatemark.release.review.create import CreateReview, create_review
from gatemark.release.review.labelling import LabelPlan
from gatemark.release.review.labels import GiveLabel, create_labels, give_label


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Client]]:
    """One version is live, others wait for a vote, are paused or came by break-glass access."""
    folder = tmp_path_factory.mktemp("doors")
    packs = tmp_path_factory.mktemp("packs")
    assert main(["init", str(packs)]) == 0
    scene = new_scene(
        folder,
        clock=lambda: datetime.now(UTC),
        packs=(str(packs),),
        signing_key=str(packs / "ledger.key"),
    )
    scene.enable("1.0.0")
    for version in ("2.0.0", "3.0.0", "4.0.0"):
        scene.to_shadow(version)
    act(
        scene.workspace,
        PauseVersion(actor="olu", asset=ASSET, version="3.0.0", reason="operator"),
    )
    why: Any = {"to": "enabled", "incident": "INC-7", "note": "1.0.0 leaks"}
    act(scene.workspace, Promote(actor="olu", asset=ASSET, version="2.0.0", **why))
    add_reviews(scene, folder)
    add_failure(scene, folder)
    scene.account("bob")
    with scene.running() as client:
        yield scene, client
    scene.workspace.store.close()


def add_reviews(scene: Scene, folder: Path) -> None:
    """Two reviews without votes, of which one may be looked at, and labels that disagree."""
    files = {
        "candidate": write_samples(folder, "warm", WARM, 4),
        "baseline": write_samples(folder, "short", SHORT, 4),
    }
    by_eve = scene.workspace.acting_as("eve")
    for name, peeking in (("letters", False), ("open", True)):
        create_review(by_eve, CreateReview(name=name, peeking=peeking, files=files))
    tone = LabelPlan(name="tone", labels=("good", "bad"), source="a pilot", labels_per_item=2)
    create_labels(by_eve, tone, files["candidate"])
    for reviewer, label in (("ann", "good"), ("cat", "bad")):
        give_label(
            scene.workspace,
            GiveLabel(labels="tone", actor=reviewer, item="mail-000", label=label),
        )
