"""Stores that this build makes by the stories of ``tools/store_fixture``, each once per run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.made_once import made_once
from tests.package_copy import SOURCE

TOOL = Path(__file__).parents[2] / "tools" / "make_store_fixture.py"
STORIES = ("full", "erased", "minimal")


def made_now(factory: pytest.TempPathFactory, story: str) -> Path:
    """The folder of a story: its store, its export and its keys."""

    def tell(folder: Path) -> None:
        usual = {name: text for name, text in os.environ.items() if not name.startswith("GATEMARK")}
        words = [sys.executable, str(TOOL), str(folder / "made"), "--story", story]
        usual["PYTHONPATH"] = str(SOURCE.parent)
        ran = subprocess.run(words, env=usual, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr

    return made_once(factory, f"store-{story}", tell) / "made"
