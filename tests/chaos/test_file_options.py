"""Every file that a command names or reads can be a bomb, and none of them goes off."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.__main__ import OF_FILES, bombed_files
from tests.chaos.file_options import NOT_AT_ONCE, SCENE, make_scene, seen_in, unread
from tests.made_once import made_once


def test_every_parameter_that_names_a_file_is_in_a_reading() -> None:
    assert not unread(), "add a good command line to READINGS in tests/chaos/file_options.py"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, SCENE, make_scene)


@pytest.mark.slow
def test_every_reading_reads_what_it_names(scene: Path) -> None:
    missed = {
        (" ".join(one.words[:2]), file)
        for one in seen_in(scene)
        for file in (word.rpartition("=")[2].removeprefix("recorded:") for word in one.words)
        if (scene / "kept" / file).is_file() and file not in one.files
    }
    assert missed == NOT_AT_ONCE


@pytest.mark.slow
def test_some_bombs_in_place_of_read_files(scene: Path, tmp_path: Path) -> None:
    count = bombed_files(scene, tmp_path, OF_FILES, 30, some=15)
    assert (count.tried, count.found) == (15 * len(OF_FILES), [])
