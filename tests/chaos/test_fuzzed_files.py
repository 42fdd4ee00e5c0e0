"""Damaged files: whatever a command is given, it ends with a word about it and never with a bug.

GATEMARK_FUZZ sets how many files are tried per command; the seeds are fixed.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.seeds import Seed, damaged, furnish, seeds

Run = Callable[..., Any]
TRIES = int(os.environ.get("GATEMARK_FUZZ", "12"))
ALLOWED = {0, 1, 2, 3, 4}


@pytest.mark.parametrize("seed", tuple(seeds()), ids=lambda seed: seed.name)
def test_no_damaged_file_makes_a_bug(seed: Seed, gatemark: Run, tmp_path: Path) -> None:
    bugs = []
    for number in range(TRIES):
        draw = random.Random(f"{seed.name} {number}")
        data = damaged(seed, draw)
        folder = tmp_path / str(number)
        folder.mkdir()
        furnish(folder)
        path = folder / seed.file
        path.write_bytes(data)
        given = [one.replace("{}", str(path)).replace("@", str(folder)) for one in seed.arguments]
        ran = gatemark(*given)
        if ran.code not in ALLOWED or set(ran.out + ran.err) & set("\x1b\u202e\x00"):
            bugs.append((number, ran.code, ran.err[-600:], data[:200]))
        shutil.rmtree(folder)
    assert not bugs
