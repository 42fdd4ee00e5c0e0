"""Things that take long to make and that every test process only looks at."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

PRINTED = "demo.printed"


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first process to need it makes; the others wait for it."""
    base = factory.getbasetemp()
    # The folders of the workers of one run lie side by side.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    place, done = shared / name, shared / f"{name}.done"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            make(place)
            done.touch()
    return place
