from __future__ import annotations

from pathlib import Path

from make_example_ferry import files

FOLDER = Path(__file__).parents[2] / "examples" / "ferry"


def test_the_shipped_files_are_what_the_tool_makes() -> None:
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == files()
