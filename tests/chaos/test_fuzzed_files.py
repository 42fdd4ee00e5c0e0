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
from tests.chaos.mutation import damaged_bytes, damaged_value, spelled
from tests.chaos.seeds import Seed, furnish, seeds

Run = Callable[..., Any]
TRIES = int(os.environ.get("GATEMARK_FUZZ", "12"))
ALLOWED = {0, 1, 2, 3, 4}


def damaged(seed: Seed, draw: random.Random) -> bytes:
    document = seed.document
    if draw.random() < 0.8:
        document = damaged_value(document, draw)
    if seed.is_lines and isinstance(document, list):
        data = b"".join(spelled(row) + b"\n" for row in document)
    else:
        data = spelled(document)
    return data if document is not seed.document else damaged_bytes(data, draw)


@pytest.mark.parametrize("seed", tuple(seeds()), ids=lambda seed: seed.name)
def test_no_damaged_file_makes_a_bug(seed: Seed, gatemark: Run, tmp_path: Path) -> None:
    bugs = []
    for number in range(TRIES):
        draw = random.Random(f"{seed.name} {number}")
        data = damaged(seed, draw)
        folder = tmp_path / str(number)
        folder.mkdir()
        furnish(folder, spelled)
        path = folder / seed.file
        path.write_bytes(data)
        given = [one.replace("{}", str(path)).replace("@", str(folder)) for one in seed.arguments]
        ran = gatemark(*given)
        if ran.code not in ALLOWED or set(ran.out + ran.err) & set("\x1b\u202e\x00"):
            bugs.append((number, ran.code, ran.err[-600:], data[:200]))
        shutil.rmtree(folder)
    assert not bugs
