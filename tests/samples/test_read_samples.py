from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.samples.importers import peer_shapes as shapes

from gatemark.core.errors import BadInputError, GatemarkError, UsageError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import inspect_source
from gatemark.samples.read_samples import SampleRequest, SampleSet, read_samples

GOOD = b'{"schema":"gatemark.sample/1","id":"a","scores":{"exact":1},"tags":{"doc":"d1"}}\n'
OTHER = b'{"schema":"gatemark.sample/1","id":"b","scores":{},"error":{"kind":"E","message":""}}\n'


def read(path: Path, data: bytes, **how: Any) -> SampleSet:
    path.write_bytes(data)
    return read_samples(inspect_source(str(path)), SampleRequest(**how), ReadingChoices())


def test_own_files_and_logs_become_the_same_columns(tmp_path: Path):
    own = read(tmp_path / "a", GOOD + OTHER, cluster="doc")
    assert own.is_own
    assert list(own.keys) == [("a", 1), ("b", 1)]
    assert own.scores == {"exact": {("a", 1): 1.0}}
    assert own.errors == {("b", 1): "E: "}
    assert own.clusters == {("a", 1): "d1"}
    log = read(tmp_path / "b", json.dumps(shapes.inspect_log()).encode(), cluster="lane")
    assert (log.tool, log.headline, len(log.keys)) == ("inspect", "match", 20)
    assert log.clusters["add-003", 1] == "odd"


def test_a_file_whose_first_line_is_broken_is_still_known_as_own(tmp_path: Path):
    with pytest.raises(BadInputError, match="a:1: not JSON"):
        read(tmp_path / "a", b"{broken\n" + GOOD)


def test_a_named_format_is_not_guessed_again(tmp_path: Path):
    with pytest.raises(BadInputError):
        read(tmp_path / "a", GOOD, tool="inspect")
    with pytest.raises(UsageError, match="no importer is called 'excel'"):
        read(tmp_path / "a", GOOD, tool="excel")


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from([GOOD, GOOD + OTHER, OTHER * 2])))
    for _ in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, len(data) - 1))
        data[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
        data = data or bytearray(b"x")
    return bytes(data)


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(damaged() | st.binary(max_size=200))
@example(b"[" * 100_000)
@example(GOOD.replace(b'"a"', b'"' + b"a" * 600 + b'"'))
@example(GOOD.replace(b"1}", b"1e999}"))
def test_any_bytes_are_samples_or_a_plain_refusal(tmp_path: Path, data: bytes):
    lines: tuple[str, ...] = ()
    found = None
    try:
        found = read(tmp_path / "any", data)
    except GatemarkError as error:
        lines = error.lines()
    assert (found is None) == bool(lines)
    assert all("\n" not in line for line in lines)
    for column in found.scores.values() if found else ():
        assert all(isinstance(score, float) for score in column.values())
        assert not column.keys() & found.errors.keys()
