"""Damaged stores and exports: every look at them ends with a word about it, never with a bug.

GATEMARK_FUZZ sets how many are tried; the seeds are fixed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.stores import keep, looks

Run = Callable[..., Any]
TRIES = 10 * int(os.environ.get("GATEMARK_FUZZ", "12"))
ALLOWED = {0, 1, 2, 3, 4}


def test_no_damaged_store_makes_a_bug(gatemark: Run, tmp_path: Path) -> None:
    kept = keep(tmp_path)
    bugs = []
    for what, command in looks(kept, tmp_path, 3, range(TRIES)):
        ran = gatemark(*command)
        if ran.code not in ALLOWED or set(ran.out + ran.err) & set("\x1b\u202e\x00"):
            bugs.append((what, command[:3], ran.code, ran.err[:300]))
    assert not bugs
