from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import argon2
import pytest
from argon2.profiles import CHEAPEST
from httpx2 import Client
from tests.server.scene import Scene, new_scene

QUICK = partial(argon2.PasswordHasher.from_parameters, CHEAPEST)
NOBODY = QUICK().hash("the password of names that nobody has")


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed with the parameters that Argon2 has for tests.

    A hash as people get it takes 0.2 s on purpose: see ``tests/server/accounts/test_passwords.py``.
    """
    monkeypatch.setattr(argon2, "PasswordHasher", QUICK)
    monkeypatch.setattr("gatemark.server.accounts.nouns._NOBODY", NOBODY)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = new_scene(tmp_path)
    yield made
    made.workspace.store.close()


@pytest.fixture
def client(scene: Scene) -> Iterator[Client]:
    with scene.running() as opened:
        yield opened
