from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Struct, UnsetType

from gatemark.core.record import BadExample, Form, by_kind
from gatemark.evidence.blocks import Block
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import RecordReader, object_lines
from gatemark.evidence.shape import KeyTotals, key_count, whole_type
from gatemark.evidence.strict_json import parse_strictly


class Inner(Struct, frozen=True, forbid_unknown_fields=True):
    label: str
    score: float | UnsetType | None = UNSET


class Outer(Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    inner: Inner
    tags: tuple[str, ...] | UnsetType = UNSET


class Open(Struct):
    id: str


class WithTable(Struct, forbid_unknown_fields=True):
    id: str
    table: dict[str, int]


class WithParts(Struct, forbid_unknown_fields=True):
    id: str
    parts: list[Inner]


class WithDefault(Struct, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    kind: str = "x"


FORM = Form(
    name="outer",
    type=Outer,
    marks=frozenset({"id"}),
    identity="id",
    good=({"id": "a", "inner": {"label": "b"}},),
    bad=(BadExample("none", {}, "$"),),
)


def test_every_key_of_the_whole_type_is_required() -> None:
    whole = whole_type(Outer)
    assert whole is not None
    assert whole.key_count == 5
    full = {"id": "a", "inner": {"label": "b", "score": None}, "tags": []}
    record = msgspec.convert(full, whole.type)
    assert isinstance(record, Outer)
    assert (record.inner.label, record.inner.score, record.tags) == ("b", None, ())
    for lacking in ({"id": "a", "inner": {"label": "b"}, "tags": []}, full | {"more": 1}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(lacking, whole.type)


@pytest.mark.parametrize("open_type", [Open, WithTable, WithParts, WithDefault])
def test_types_with_open_parts_have_no_whole(open_type: type[Struct]) -> None:
    assert whole_type(open_type) is None


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (b'{"a": 1, "b": {"c": "x:y"}}\n', 3),
        (b'{"a":1,"a":2}\n', 2),
        (b'{"a": ":starts with one"}\n', 1),
        (b'{"a":":","b":"::"}\n', 2),
        (b'{"a" : 1}\n', None),
        (b'{"a": "x : y"}\n', None),
        (b'{"a\\"": 1}\n', 1),
        (b'{"a": "\\":"}\n', 2),
        (b'{"a": "b\\\\","a":1}\n', 2),
        (b"[]\n", 0),
    ],
)
def test_keys_are_counted_without_parsing_or_not_at_all(line: bytes, count: int | None) -> None:
    assert key_count(line) == count


def admit(lines: list[str]) -> RecordReader:
    reader = RecordReader(FORM, ReadingChoices(max_errors=99))
    data = "".join(line + "\n" for line in lines).encode()
    for _ in reader.records(iter([Block(data)])):
        pass
    return reader


texts = st.sampled_from(["", "b", "b:c", ":b", "b : c", '"', "{", "ä", "\\"])
scores = st.sampled_from(["", ', "score": null', ', "score": 1', ', "score" : 2', ',"score":1'])


@st.composite
def record_lines(draw: st.DrawFn) -> str:
    quoted = [json.dumps(draw(texts), ensure_ascii=draw(st.booleans())) for _ in range(3)]
    colon = draw(st.sampled_from([":", ": ", " :"]))
    inner = f'"label"{colon}{quoted[0]}' + "".join(draw(st.lists(scores, max_size=2)))
    tags = draw(st.sampled_from(["", f', "tags": [{quoted[1]}]', ', "tags": []']))
    again = draw(st.sampled_from(["", "", f', "id"{colon}{quoted[2]}']))
    return f'{{"id": "r", "inner": {{{inner}}}{tags}{again}}}'


@settings(deadline=None, max_examples=200)
@given(st.lists(record_lines(), min_size=1, max_size=4))
def test_a_line_is_refused_exactly_when_it_repeats_a_key(lines: list[str]) -> None:
    repeated: list[Any] = [
        problems for line in lines if (problems := parse_strictly(line.encode(), max_depth=9)[1])
    ]
    reader = admit(lines)
    assert (reader.rejected, reader.accepted) == (len(repeated), len(lines) - len(repeated))


def test_files_without_optional_keys_give_the_short_way_up() -> None:
    reader = RecordReader(FORM, ReadingChoices(max_errors=9))
    block = Block(b'{"id": "r", "inner": {"label": "b"}}\n')
    assert sum(len(batch) for batch in reader.records(iter([block] * 20))) == 20
    assert reader._whole_decoder is None


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b'{"a": 1}\n', 1),
        (b'{"a": 1}\n{"a": 2}\n', 2),
        (b'{"a": 1} {"a": 2}\n{"a": 3}\n', 2),
        (b'{"a": [{}\n]}\n', None),
        (b'{"a": 1}\n\n{"a": 2}\n', None),
        (b'{"a": 1}\r\n{"a": 2}\r\n', None),
        (b' {"a": 1}\n', None),
        (b"[1]\n", None),
        (b"\n", None),
        (b'{"a": 1}', None),
    ],
)
def test_lines_are_read_in_one_go_only_where_each_is_an_object(
    data: bytes, count: int | None
) -> None:
    assert object_lines(data) == count


GOOD = '{"id": "r", "inner": {"label": "b"}}'


@pytest.mark.parametrize(
    ("lines", "accepted"),
    [
        ([GOOD, GOOD], 2),
        ([GOOD + " " + GOOD], 0),
        ([GOOD + GOOD, GOOD], 1),
        (['{"id": "r", "inner": {"label": "b"}', "}", GOOD + GOOD], 0),
        (['{"id": "r",', '"inner": {"label": "b"}}', GOOD], 1),
        ([GOOD, "", "  ", GOOD], 2),
        ([" " + GOOD + " ", GOOD + "\r"], 2),
        ([GOOD, "{}"], 1),
    ],
)
def test_one_line_is_one_record_however_blocks_are_read(lines: list[str], accepted: int) -> None:
    reader = admit(lines)
    assert reader.accepted == accepted
    assert reader.line_count == len(lines)
    assert reader.received == sum(bool(line.strip()) for line in lines)


class Said(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="said"):
    text: str
    at: int


class Edge(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="edge"):
    at: int
    hash: str | UnsetType = UNSET
    inner: Inner | UnsetType = UNSET


class Loose(Struct, frozen=True, tag_field="kind", tag="loose"):
    at: int


def test_records_of_closed_types_tell_how_many_keys_their_lines_have() -> None:
    said = [Said("a", at) for at in range(16)]
    totals = KeyTotals([Said, Edge])
    assert totals.of(by_kind(said)) == 16 * 3
    assert totals.of(by_kind([*said, Edge(1)])) == 16 * 3 + 2
    assert totals.of(by_kind([*said, Edge(1, "x", Inner("b"))])) == 16 * 3 + 5
    assert totals.of(by_kind([Said("a", 1), Edge(1)])) is None, "too many to be counted one by one"
    assert totals.of({}) == 0


def test_types_that_allow_other_keys_or_need_no_tag_tell_nothing() -> None:
    assert KeyTotals([Said, Loose]).of(by_kind([Loose(1)] * 9)) is None
    assert KeyTotals([Said]).of(by_kind([Said("a", 1)])) is None


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "b", ":", ": ", '":', "\\", '"', 'a":', "{", "\n"]),
            st.sampled_from(["", ', "at": 2', ', "at" : 2', ',"\\u0061t":3', ', "text": ":"']),
            st.sampled_from([":", ": ", " :"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_counting_never_takes_a_repeated_key_for_none(rows: list[tuple[str, str, str]]) -> None:
    lines = [
        f'{{"kind"{colon}"said","text"{colon}{json.dumps(text)},"at"{colon}1{again}}}'
        for text, again, colon in rows
    ]
    data = "".join(line + "\n" for line in lines).encode()
    records = [msgspec.json.decode(line, type=Said | Edge) for line in lines]
    total, counted = KeyTotals([Said, Edge]).of(by_kind(records)), key_count(data)
    if total == counted:
        assert not any(again for _, again, _ in rows)
