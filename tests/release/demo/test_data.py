from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from make_demo_pairs import FILES, write


def test_the_shipped_files_are_what_the_script_makes(tmp_path: Path) -> None:
    write(tmp_path)
    for name in FILES:
        assert (files("gatemark.release.demo") / name).read_bytes() == (
            tmp_path / name
        ).read_bytes()
