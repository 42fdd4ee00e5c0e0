from __future__ import annotations

import os
from pathlib import Path

import pytest

from gatemark.plugins.advisory.dry_run.question import (
    BusyReading,
    measure_busy,
    read_counter,
)


def test_a_counter_is_read_with_or_without_a_line_end(tmp_path: Path) -> None:
    place = tmp_path / "busy"
    for text in ("1200", "1200\n", " 1200 \n"):
        place.write_text(text)
        assert read_counter(place) == BusyReading(1200)


def test_a_missing_counter_is_said_to_be_missing(tmp_path: Path) -> None:
    assert read_counter(tmp_path / "none") == BusyReading(None, "counter_missing")


def test_a_folder_cannot_be_read_as_a_counter(tmp_path: Path) -> None:
    assert read_counter(tmp_path) == BusyReading(None, "counter_unreadable")


def test_a_pipe_without_a_writer_does_not_keep_anybody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "busy")
    assert read_counter(tmp_path / "busy") == BusyReading(None, "counter_not_a_number")


@pytest.mark.parametrize("text", ["", "busy", "-3", "1.5", "1 2", "9" * 30, "7" * 80, "٣"])
def test_what_is_not_a_number_is_no_reading(tmp_path: Path, text: str) -> None:
    place = tmp_path / "busy"
    place.write_text(text)
    assert read_counter(place) == BusyReading(None, "counter_not_a_number")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (BusyReading(5), BusyReading(9), BusyReading(4)),
        (BusyReading(5), BusyReading(5), BusyReading(0)),
        (BusyReading(9), BusyReading(5), BusyReading(None, "counter_went_backwards")),
        (
            BusyReading(None, "counter_missing"),
            BusyReading(5),
            BusyReading(None, "counter_missing"),
        ),
        (
            BusyReading(5),
            BusyReading(None, "counter_not_a_number"),
            BusyReading(None, "counter_not_a_number"),
        ),
    ],
)
def test_only_two_good_readings_in_order_give_a_delta(
    before: BusyReading, after: BusyReading, expected: BusyReading
) -> None:
    assert measure_busy(before, after) == expected
