from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import Client
from tests.web.scene import Scene, new_scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = new_scene(tmp_path)
    yield made
    made.workspace.store.close()


@pytest.fixture
def client(scene: Scene) -> Iterator[Client]:
    with scene.running() as opened:
        yield opened
