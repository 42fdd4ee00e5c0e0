"""Every command prints, writes and ends as recorded; ``make recordings`` accepts a difference."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest
from tests.chaos.file_options import commands
from tests.recordings.transcripts import normalize
from tests.recordings.walk import RECORDED, walk

pytestmark = pytest.mark.slow


def test_every_command_gives_what_is_recorded(tmp_path: Path) -> None:
    found = walk(tmp_path)
    kept = {file.stem: file.read_text(encoding="utf-8") for file in RECORDED.glob("*.txt")}
    differences = []
    for name in sorted({*found, *kept}):
        before, after = kept.get(name, ""), found.get(name, "")
        differences += unified_diff(before.splitlines(), after.splitlines(), name, "now", n=1)
    assert not differences, "\n".join(differences[:300])


def test_every_command_is_recorded() -> None:
    kept = {file.stem for file in RECORDED.glob("*.txt")}
    assert {name.replace(" ", "-") for name, _ in commands()} - kept == set()


def test_equal_ids_have_equal_placeholders_and_others_do_not() -> None:
    first, other = "sha256:" + "a1" * 32, "sha256:" + "b2" * 32
    said = normalize(f"{first} {other} {first} 0.123456789123 3.5 2026", {})
    assert said == "<digest 1> <digest 2> <digest 1> 0.123456789 3.5 2026"
