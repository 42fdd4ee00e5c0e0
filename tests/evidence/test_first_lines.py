from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.record import RecordSchema
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.reading_choices import Limits, ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.shards import whole_file
from gatemark.evidence.small_file import read_small_file
from gatemark.evidence.source import inspect_source
from gatemark.plugins.overhead.records import SCHEMA

Run = Callable[..., Any]
Write = Callable[[str, Sequence[Any]], Path]

HEAD = dict(SCHEMA.form("arm_meta").good[0])
WINDOW = dict(SCHEMA.form("window_loss").good[0])
COUNTS = dict(SCHEMA.form("window_counts").good[0])


def windows(count: int) -> list[dict[str, Any]]:
    return [WINDOW | {"window_id": f"w{i}"} for i in range(count)]


def read(path: Path, **limits: int) -> tuple[RecordReader, list[tuple[int, str]]]:
    choices = ReadingChoices(limits=Limits(**limits))
    reader = RecordReader(SCHEMA, choices)
    found = []
    for batch in reader.records(read_blocks(whole_file(inspect_source(str(path))), choices.limits)):
        found += [
            (line, record.window_id) for line, record in zip(reader.batch_lines, batch, strict=True)
        ]
    return reader, found


def test_lines_keep_their_numbers_over_blank_lines_and_blocks(write_jsonl: Write) -> None:
    rows = windows(1_000)
    reader, found = read(write_jsonl("a.jsonl", ["", "  ", HEAD, "", *rows]))
    assert reader.head is not None
    assert reader.head.arm == "bare"
    assert found == [(5 + i, f"w{i}") for i in range(1_000)]
    assert (reader.received, reader.accepted, reader.rejected) == (1_001, 1_001, 0)


def test_without_a_good_first_line_nothing_is_read(write_jsonl: Write) -> None:
    reader, found = read(write_jsonl("a.jsonl", [HEAD | {"arm": "left"}, *windows(3)]))
    assert (reader.head, found, reader.received, reader.rejected) == (None, [], 1, 1)
    assert reader.refusals[0].line == 1


def test_a_first_line_that_is_too_long_is_refused(write_jsonl: Write) -> None:
    reader, found = read(write_jsonl("a.jsonl", [HEAD, *windows(2)]), line_bytes=100)
    assert (reader.head, found) == (None, [])
    assert "longer than 100 bytes" in reader.refusals[0].problems[0].message


def test_a_head_needs_a_body() -> None:
    with pytest.raises(InvalidValueError, match="head and body come together"):
        RecordSchema("x/1", "x", (), head="a")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([HEAD], "holds nothing after its first line"),
        ([], "contains no records"),
        ([HEAD, WINDOW, WINDOW], "a.jsonl:3: id 'w000001' was seen before on line 2"),
        ([HEAD, COUNTS], 'a.jsonl:2: key "tokens" is missing'),
        ([HEAD | {"metric_kind": "accuracy"}, WINDOW], 'a.jsonl:2: key "correct" is missing'),
        ([HEAD, WINDOW | {"loss": -1}], "at $.loss"),
        ([HEAD, json.dumps(WINDOW).replace("2.163323025660538", "NaN")], "NaN is not a JSON"),
        ([HEAD, '{"record_type": "window", "win'], "a.jsonl:2: not JSON"),
        ([HEAD | {"seeds": {}}, WINDOW], "a.jsonl:1: key"),
    ],
)
def test_validate_tells_what_is_wrong_with_an_arm(
    gatemark: Run, write_jsonl: Write, lines: list[Any], words: str
) -> None:
    ran = gatemark("validate", write_jsonl("a.jsonl", lines))
    assert ran.code == 2
    assert words in ran.err


def test_validate_accepts_arms_of_both_forms(gatemark: Run, write_jsonl: Write) -> None:
    losses = write_jsonl("a.jsonl", [HEAD, *windows(2)])
    counts = write_jsonl("b.jsonl", [HEAD | {"metric_kind": "accuracy"}, COUNTS])
    ran = gatemark("validate", losses, counts)
    assert ran.code == 0
    assert "a.jsonl: valid gatemark.arm/1 (window_loss): 3 received, 3 accepted" in ran.out
    assert "b.jsonl: valid gatemark.arm/1 (window_counts): 2 received, 2 accepted" in ran.out


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    for look in (inspect_source, partial(read_small_file, max_bytes=10)):
        with pytest.raises(BadInputError, match="no file can have this name"):
            look(name)
