"""A small world for the browser and for pictures: a real clock, drift, a canary, and packs."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.made_once import made_once
from tests.release.lifecycle.sealed import result
from tests.server.failures import add_failure
from tests.server.review_set import add_reviews
from tests.server.scene import ASSET, Clock, Scene

import gatemark.packs.starter
from gatemark.core.canonical import digest
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.probe import probe
from gatemark.release.drift.push import push_points
from gatemark.release.lifecycle.act import act, run_due
from gatemark.release.lifecycle.commands import AddVersion, Approve, Promote, SetRequiredPack
from gatemark.release.lifecycle.model.nouns import Pins
from gatemark.workspace import Workspace

NOW = datetime.now(UTC).replace(microsecond=0)


def build(folder: Path, **settings: Any) -> Scene:
    """Two days of life: one version enabled, one in canary, one waiting for votes."""
    packs = folder / "packs"
    shutil.copytree(Path(gatemark.packs.starter.__file__).parent, packs)
    clock = Clock()
    clock.now = NOW - timedelta(days=3)
    scene = Scene(str(folder / "store"), clock, packs=(str(packs),), **settings)
    pins = Pins(model="small-2026-03", prompt="v7", tools={"search": "2.1"})
    scene.enable("1.0.0")
    clock.now += timedelta(hours=26)
    run_due(scene.workspace, ASSET, "production")
    scene.canary("1.1.0", "1.0.0")
    clock.now += timedelta(minutes=1)
    start = clock.now.replace(minute=0, second=0) + timedelta(hours=1)
    for number in range(2):
        clock.now = start + timedelta(minutes=15 * (number + 1))
        scene.clean_window(start + timedelta(minutes=15 * number))
    scene.add("1.2.0", pins=pins, note="shorter answers, new search tool")
    scene.promote("1.2.0", "evaluating", actor="ann")
    scene.seal("1.2.0", title="triage required pack, 1.2.0")
    clock.now = NOW - timedelta(hours=2)
    second(scene, "greeter")
    watched(scene, "router", folder)
    clock.now = NOW
    add_reviews(scene, folder)
    add_failure(scene, folder)
    return scene


def built_once(factory: pytest.TempPathFactory) -> Scene:
    """A copy of the world, which is built for the first test process that asks for it."""

    def make(folder: Path) -> None:
        build(folder).workspace.store.close()
        (folder / "now").write_text(NOW.isoformat())

    folder = factory.mktemp("world")
    shutil.copytree(made_once(factory, "stage-set", make), folder, dirs_exist_ok=True)
    clock = Clock()
    clock.now = datetime.fromisoformat((folder / "now").read_text())
    packs = (str(folder / "packs"),)
    return Scene(str(folder / "store"), clock, has_people=True, packs=packs)


def second(scene: Scene, asset: str) -> None:
    """Another asset whose first version is up for a vote."""
    workspace = scene.workspace
    act(
        workspace,
        AddVersion(actor="ann", asset=asset, kind="prompt", version="0.9.0", digest=digest(asset)),
    )
    act(workspace, SetRequiredPack(actor="eve", asset=asset, required_pack=scene.exam()))
    act(workspace, Promote(actor="ann", asset=asset, version="0.9.0", to="evaluating"))
    made = result(asset, digest(asset), scene.clock(), title=f"{asset} required pack")
    workspace.results.append(made)
    cites = (made.id,)
    act(
        workspace,
        Promote(actor="eve", asset=asset, version="0.9.0", to="eligible", result_ids=cites),
    )
    act(workspace, Promote(actor="olu", asset=asset, version="0.9.0", to="shadow"))


def watched(scene: Scene, asset: str, folder: Path) -> None:
    """An asset that was enabled and then drifted out of service."""
    second(scene, asset)
    approve = Approve(actor="bob", asset=asset, version="0.9.0", stage="enabled", note="first")
    act(scene.workspace, approve)
    act(scene.workspace, Promote(actor="olu", asset=asset, version="0.9.0", to="enabled"))
    push_drift(scene.workspace, folder, asset, NOW)


def push_drift(workspace: Workspace, folder: Path, asset: str, until: datetime) -> None:
    """Thirty quiet days and two bad ones."""
    first = until.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=32)
    path = folder / f"{asset}.points.jsonl"
    lines = []
    for day in range(32):
        start = first + timedelta(days=day)
        good = 930 + (day * 7) % 11 - (220 if day >= 30 else 0)
        lines.append(
            {
                "schema": "gatemark.point/1",
                "asset": asset,
                "metric": "golden_accuracy",
                "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
                "end": f"{start + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
                "source": "shop",
                "n": 1000,
                "k": good,
            }
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    push_points(workspace.acting_as("olu"), [str(path)], ReadingChoices(), now=until)
    probe(workspace, DriftPolicy(on_breach="stop"), now=until)
