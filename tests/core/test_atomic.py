from __future__ import annotations

from pathlib import Path

import pytest

from gatemark.core.atomic import write_together
from gatemark.core.errors import BadInputError


def test_files_written_together_appear_whole(tmp_path: Path) -> None:
    write_together([(tmp_path / "a", b"1"), (tmp_path / "new" / "b", b"2")])
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "new" / "b").read_bytes() == b"2"


@pytest.mark.parametrize("order", [1, -1])
def test_files_written_together_all_stay_away_when_one_cannot_be_written(
    order: int, tmp_path: Path
) -> None:
    (tmp_path / "old").write_bytes(b"before")
    (tmp_path / "folder").mkdir()
    files = [(tmp_path / "old", b"1"), (tmp_path / "folder", b"2"), (tmp_path / "c", b"3")]
    with pytest.raises(BadInputError, match="folder: cannot be written"):
        write_together(files[::order])
    assert (tmp_path / "old").read_bytes() == b"before"
    assert sorted(place.name for place in tmp_path.iterdir()) == ["folder", "old"]
