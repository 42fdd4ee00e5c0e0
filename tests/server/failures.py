"""A wrong decision of a help desk, attributed and sealed, for the pages and the interface."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.server.scene import ASSET, Scene

from gatemark.release.attribution.attribute import AttributeRequest, attribute
from gatemark.release.lifecycle.state_cache import read_state

STEPS = """
def step(call):
    if call["name"] == "router":
        return "parcels"
    if call["name"] == "tariffs":
        return "5"
    if call["pins"].get("prompt:writer") == "r2":
        return "no idea"
    return f"costs {call['inputs']['look-up']}"
"""
EXPECTED = "costs 5"


def _step(name: str, kind: str, called: str, sources: list[str], **more: Any) -> dict[str, Any]:
    return {"id": name, "kind": kind, "name": called, "sources": sources, **more}


def add_failure(scene: Scene, folder: Path, reviewer: str = "bob", **changes: Any) -> str:
    """Seal an attribution of a decision that somebody judged wrong; gives its id."""
    if not read_state(scene.workspace, ASSET).asset.versions:
        scene.add("0.1.0")
    pins = {kind: {"name": "writer", "version": "r2"} for kind in ("prompt", "model")}
    document: dict[str, Any] = {
        "id": "parcel-17",
        "asset": ASSET,
        "input": "how much is a parcel?",
        "output": "no idea",
        "steps": [
            _step("route", "model", "router", ["input"], output="parcels"),
            _step("look-up", "retrieval", "tariffs", ["route"], output="5"),
            _step("answer", "model", "writer", ["look-up"], output="no idea", **pins),
        ],
        "judgement": {"verdict": "wrong", "reviewer": reviewer, "expected": EXPECTED},
        **changes,
    }
    (folder / "desk_steps.py").write_text(STEPS)
    (folder / "decision.json").write_text(json.dumps(document))
    plan = {"reference": {"prompt:writer": "r1", "model:writer": "r2"}, "repeats": 5}
    (folder / "replay.yaml").write_text(
        json.dumps(plan | {"target": {"python": "desk_steps:step"}})
    )
    request = AttributeRequest(
        decision=str(folder / "decision.json"), replay=str(folder / "replay.yaml"), seal=True
    )
    # Playwright keeps the event loop of its thread to itself.
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(attribute, scene.workspace, request).result().attribution.id
