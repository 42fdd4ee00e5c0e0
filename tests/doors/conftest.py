"""A server on whose pages every form of an asset is found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from httpx2 import Client
from tests.web.scene import ASSET, Scene, new_scene

from gatemark.lifecycle.act import act
from gatemark.lifecycle.commands import PauseVersion, Promote


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Client]]:
    """One version is live, others wait for a vote, are paused or came by break-glass access."""
    scene = new_scene(tmp_path_factory.mktemp("doors"), clock=lambda: datetime.now(UTC))
    scene.enable("1.0.0")
    for version in ("2.0.0", "3.0.0", "4.0.0"):
        scene.to_shadow(version)
    act(
        scene.workspace,
        PauseVersion(actor="olu", asset=ASSET, version="3.0.0", reason="operator"),
    )
    why: Any = {"to": "enabled", "incident": "INC-7", "note": "1.0.0 leaks"}
    act(scene.workspace, Promote(actor="olu", asset=ASSET, version="2.0.0", **why))
    with scene.running() as client:
        yield scene, client
    scene.workspace.store.close()
