from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.checks.agreement.records import SCHEMA
from gatemark.core.errors import BadInputError
from gatemark.evidence.blocks import BLOCK_BYTES, Block, read_blocks
from gatemark.evidence.diagnose import diagnose
from gatemark.evidence.reading_choices import Limits, ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.shape import may_nest
from gatemark.evidence.shards import split_sources
from gatemark.evidence.source import Source, inspect_source
from gatemark.release.attribution.records import SCHEMA as DECISION_SCHEMA
from gatemark.samples.records import SCHEMA as SAMPLE_SCHEMA

FORM = SCHEMA.form("judgement")
SMALL = Limits(line_bytes=1000)


def line(number: int, **more: Any) -> bytes:
    return json.dumps({"qid": f"Q{number}", "label": "VALID", **more}).encode()


def source_of(folder: Path, data: bytes, name: str = "evidence.jsonl") -> Source:
    path = folder / name
    path.write_bytes(data)
    return inspect_source(str(path))


def admitted(
    source: Source,
    *,
    limits: Limits = SMALL,
    check_keys: bool = True,
    parts: int = 1,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[list[Any], RecordReader]:
    records: list[Any] = []
    reader = RecordReader(
        FORM, ReadingChoices(limits=limits, check_duplicate_keys=check_keys, max_errors=50)
    )
    for shard in split_sources((source,), parts, 1):
        for batch in reader.records(read_blocks(shard, limits, block_bytes=block_bytes)):
            assert len(reader.batch_lines) == len(batch)
            records.extend(batch)
    assert reader.received == reader.accepted + reader.rejected
    assert reader.accepted == len(records)
    return records, reader


def refusal(folder: Path, data: bytes, **how: Any) -> tuple[int, str]:
    _, reader = admitted(source_of(folder, data), **how)
    assert reader.rejected == 1
    (found,) = reader.refusals
    return found.line, "; ".join(f"{p.path}: {p.message}" for p in found.problems)


def test_plain_gzip_and_zstd_give_the_same_records(tmp_path: Path) -> None:
    data = b"".join(line(n) + b"\n" for n in range(5000))
    frames = zstandard.compress(data[:70_000]) + zstandard.compress(data[70_000:])
    plain, _ = admitted(source_of(tmp_path, data))
    for packed in (gzip.compress(data), zstandard.compress(data), frames):
        assert admitted(source_of(tmp_path, packed, "misnamed.txt"))[0] == plain
    assert len(plain) == 5000


def test_byte_order_mark_carriage_returns_and_blank_lines_are_tolerated(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + line(1) + b"\r\n\r\n" + line(2) + b"\n  \n\n" + line(3)
    records, reader = admitted(source_of(tmp_path, data))
    assert [record.qid for record in records] == ["Q1", "Q2", "Q3"]
    assert (reader.received, reader.line_count) == (3, 6)


def test_lines_are_numbered_past_blank_and_bad_ones(tmp_path: Path) -> None:
    data = line(1) + b"\n\n" + b"junk\n" + line(2) + b"\n"
    source = source_of(tmp_path, data)
    reader = RecordReader(FORM, ReadingChoices(limits=SMALL, max_errors=5))
    (shard,) = split_sources((source,), 1, 1)
    batches = reader.records(read_blocks(shard, SMALL))
    seen = [(list(reader.batch_lines), len(batch), reader.rejected) for batch in batches]
    assert seen == [([1], 1, 0), ([4], 1, 1)]
    assert [found.line for found in reader.refusals] == [3]


def test_lines_are_numbered_past_blank_ones_at_the_start(tmp_path: Path) -> None:
    data = b"\n \t\n\r\n  " + line(1) + b"\njunk\n"
    records, reader = admitted(source_of(tmp_path, data))
    assert [record.qid for record in records] == ["Q1"]
    assert (reader.line_count, [found.line for found in reader.refusals]) == (5, [5])
    records, reader = admitted(source_of(tmp_path, b"\n" * 5000 + b" "))
    assert (records, reader.line_count, reader.refusals) == ([], 5001, [])


@pytest.mark.parametrize("cut", [1, 10, 400])
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_truncated_packed_files_are_refused_with_a_place(
    tmp_path: Path, pack: Any, cut: int
) -> None:
    packed = pack(b"".join(line(n, reason=str(n * 7919 % 1009)) + b"\n" for n in range(3000)))
    source = source_of(tmp_path, packed[:-cut])
    with pytest.raises(BadInputError, match=r"evidence.jsonl:\d+: (gzip|zstd) data is damaged"):
        admitted(source)


def test_a_flipped_byte_in_a_packed_file_is_noticed(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"".join(line(n) + b"\n" for n in range(3000))))
    packed[-6] ^= 1
    with pytest.raises(BadInputError, match="damaged"):
        admitted(source_of(tmp_path, bytes(packed)))


@pytest.mark.parametrize(("name", "data"), [("a.jsonl", b""), ("a.jsonl", b"\n \r\n\n")])
def test_an_empty_file_receives_nothing(tmp_path: Path, name: str, data: bytes) -> None:
    records, reader = admitted(source_of(tmp_path, data, name))
    assert (records, reader.received) == ([], 0)


def test_missing_files_and_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="No such file"):
        inspect_source(str(tmp_path / "gone"))
    with pytest.raises(BadInputError, match="is a directory"):
        inspect_source(str(tmp_path))


def test_what_is_no_regular_file_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero", "/dev/null"):
        with pytest.raises(
            BadInputError, match="expected a regular file; '-' reads standard input"
        ):
            inspect_source(path)


def test_utf16_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="UTF-16"):
        source_of(tmp_path, '{"qid": "Q"}'.encode("utf-16"))


@pytest.mark.parametrize("size", [1001, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 5])
def test_an_overlong_line_is_one_refusal_and_the_rest_is_read(tmp_path: Path, size: int) -> None:
    data = line(1) + b"\n" + b"x" * size + b"\n" + line(2) + b"\n"
    records, reader = admitted(source_of(tmp_path, data))
    assert [record.qid for record in records] == ["Q1", "Q2"]
    assert [(found.line, found.problems[0].message) for found in reader.refusals] == [
        (2, "line is longer than 1000 bytes")
    ]


def test_the_total_size_is_limited(tmp_path: Path) -> None:
    data = b"".join(line(n) + b"\n" for n in range(3000))
    tight = Limits(total_bytes=50_000)
    for packed in (data, gzip.compress(data), zstandard.compress(data)):
        with pytest.raises(BadInputError, match="larger than 50000 bytes"):
            admitted(source_of(tmp_path, packed), limits=tight)


def test_the_total_size_of_a_plain_file_holds_for_all_its_shards(tmp_path: Path) -> None:
    source = source_of(tmp_path, b"".join(line(n) + b"\n" for n in range(3000)))
    with pytest.raises(BadInputError, match="larger than 50000 bytes"):
        admitted(source, limits=Limits(total_bytes=50_000), parts=9)


def test_bad_utf8_is_refused_with_its_line_even_in_a_field_nobody_reads(tmp_path: Path) -> None:
    bad = b'{"qid": "Q2", "label": "VALID", "answer_json": {"other": "\xff"}}'
    number, words = refusal(tmp_path, line(1) + b"\n" + bad + b"\n" + line(3) + b"\n")
    assert number == 2
    assert "not UTF-8: byte 0xff" in words


@pytest.mark.parametrize(
    "bad",
    [
        b'{"qid": "Q", "label": "VALID", "label": "REJECT"}',
        b'{"qid": "Q", "qid" : "R", "label": "VALID"}',
        b'{"qid": "Q", "label": "VALID", "flags": {"provenance_violation": false, '
        b'"provenance_violation": true}}',
        b'{"qid": "Q", "label": "VALID", "answer_json": {"x": 1, "x": 2}}',
        b'{"qid": "Q\\u003a", "label": "VALID", "label": "REJECT"}',
        b'{"qid": "Q", "label": "VALID", "reason": "a\\u003Ab:", "reason": "ab"}',
    ],
)
def test_a_repeated_key_is_refused_wherever_it_hides(tmp_path: Path, bad: bytes) -> None:
    number, words = refusal(tmp_path, line(1) + b"\n" + bad + b"\n")
    assert number == 2
    assert "more than once" in words


def test_the_duplicate_key_check_can_be_turned_off(tmp_path: Path) -> None:
    bad = b'{"qid": "Q", "label": "VALID", "label": "REJECT"}\n'
    records, _ = admitted(source_of(tmp_path, bad), check_keys=False)
    assert records[0].label == "REJECT"


def test_colons_and_escapes_in_strings_are_no_duplicate_keys(tmp_path: Path) -> None:
    data = line(1, reason='a: "b": \u003a \\u003a {"c": 1}') + b"\n" + line(2, answer_json={"x": 1})
    records, _ = admitted(source_of(tmp_path, data))
    assert len(records) == 2


def test_keys_that_only_repeat_a_default_are_no_reason_to_look_closer(tmp_path: Path) -> None:
    full = b'{"schema":"gatemark.sample/1","id":"a:%d","scores":{},"epoch":1,"error":null}\n'
    source = source_of(tmp_path, b"".join(full % number for number in range(50)))
    (shard,) = split_sources((source,), 1, 1)
    form = SAMPLE_SCHEMA.form("sample")
    reader = RecordReader(form, ReadingChoices(max_errors=5))
    # A range says that the block went through whole; line by line the numbers would be a list.
    for batch in reader.records(read_blocks(shard, Limits())):
        assert len(batch) == 50
        assert isinstance(reader.batch_lines, range)
    bad = b'{"schema":"gatemark.sample/1","id":"a","scores":{},"epoch":1,"epoch":1}\n'
    (shard,) = split_sources((source_of(tmp_path, full % 1 + bad),), 1, 1)
    assert [len(batch) for batch in reader.records(read_blocks(shard, Limits()))] == [1]
    assert "more than once" in reader.refusals[0].problems[0].message


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    for depth in (65, 100_000):
        deep = b"[" * depth + b"]" * depth
        bad = b'{"qid": "Q", "label": "VALID", "answer_json": {"x": ' + deep + b"}}\n"
        _, words = refusal(tmp_path, bad, limits=Limits())
        assert "nested" in words


def test_closed_records_are_not_searched_for_depth() -> None:
    """The pairs of the agreement exam are read by the hundred megabytes."""
    assert not may_nest(SCHEMA.form("pair"))
    assert may_nest(SCHEMA.form("judgement"))
    assert may_nest(SAMPLE_SCHEMA.form("sample"))


@pytest.mark.parametrize(("levels", "rejected"), [(62, 0), (63, 1), (900, 1)])
def test_depth_is_limited_where_a_record_is_open(
    levels: int, rejected: int, tmp_path: Path
) -> None:
    """One level is the record; the limit is 64 of them."""
    deep = json.loads("[" * levels + "]" * levels)
    record = {"schema": "gatemark.sample/1", "id": "a", "scores": {}, "input": [deep, "[" * 99]}
    source = source_of(tmp_path, json.dumps(record).encode() + b"\n")
    form = SAMPLE_SCHEMA.form("sample")
    reader = RecordReader(form, ReadingChoices(max_errors=5))
    (shard,) = split_sources((source,), 1, 1)
    assert sum(map(len, reader.records(read_blocks(shard, Limits())))) == 1 - rejected
    assert reader.rejected == rejected


def test_depth_is_limited_inside_a_list_of_records() -> None:
    (form,) = DECISION_SCHEMA.forms
    decision = json.loads(json.dumps(form.good[0]))
    for levels, rejected in ((61, 0), (62, 1)):
        decision["steps"][0] |= {"output": json.loads("[" * levels + "]" * levels)}
        decision["steps"][0].pop("error", None)
        data = json.dumps(decision).encode() + b"\n"
        assert bool(diagnose(data, form, max_depth=64)) == bool(rejected)
        reader = RecordReader(form, ReadingChoices())
        assert sum(map(len, reader.records(iter([Block(data)])))) == 1 - rejected


@pytest.mark.parametrize("bad", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"[1", b"{}", b"[]"])
def test_what_is_no_record_is_refused(tmp_path: Path, bad: bytes) -> None:
    number, _ = refusal(tmp_path, line(1) + b"\n" + bad + b"\n")
    assert number == 2


LONE = "half of a surrogate pair stands alone"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (rb'"answer_json": {"x": 1e400}', '"1e400" is too large for a number'),
        (rb'"answer_json": {"x": [{"y": -1e999}]}', '"-1e999" is too large for a number'),
        (rb'"answer_json": {"x": "\ud800"}', LONE),
        (rb'"answer_json": {"x": ["\udfff!"]}', LONE),
        (rb'"answer_json": {"a\ud83d": 1}', LONE),
        (rb'"reason": "\ud800"', LONE),
        (rb'"colour\ud800": "red"', LONE),
        (rb'"retrieved_ids": ["\uDC00"]', LONE),
    ],
)
def test_values_that_no_other_reader_could_take_are_refused_wherever_they_stand(
    more: bytes, words: str, tmp_path: Path
) -> None:
    bad = b'{"qid": "Q2", "label": "VALID", ' + more + b"}"
    number, found = refusal(tmp_path, line(1) + b"\n" + bad + b"\n")
    assert number == 2
    assert words in found


def test_whole_surrogate_pairs_and_escapes_are_ordinary_text(tmp_path: Path) -> None:
    data = (
        rb'{"qid": "Q\ud83d\ude00", "label": "VALID", "answer_json": {"x": "\ud83d\ude00\u00e9"}}'
    )
    (record,), _ = admitted(source_of(tmp_path, data + b"\n"))
    assert record.qid == "Q\U0001f600"


def test_every_problem_of_a_line_is_listed_with_its_path(tmp_path: Path) -> None:
    bad = b'{"qid": 7, "label": "valid", "flags": null, "colour": "red"}'
    _, words = refusal(tmp_path, bad)
    assert "$.qid: got 7, expected string" in words
    assert '$.label: got "valid", allowed: "ABSTAIN", "NOT_IN_CONTEXT", "REJECT", "VALID"' in words
    assert "$.flags: got null, expected object" in words
    assert '$: unknown key "colour"' in words


@given(
    lines=st.lists(
        st.one_of(
            st.integers(0, 9).map(line),
            st.just(b""),
            st.sampled_from([b"junk", b"\xff\xfe", b"{", b'{"qid":"a","qid":"b","label":"VALID"}']),
            st.binary(max_size=30).filter(lambda data: b"\n" not in data),
        ),
        max_size=30,
    ),
    parts=st.integers(1, 9),
    block_bytes=st.integers(1, 200),
)
@settings(deadline=None, max_examples=150)
def test_any_split_reads_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    parts: int,
    block_bytes: int,
) -> None:
    folder = tmp_path_factory.mktemp("split")
    data = b"x" + b"\n".join(lines) + b"\n"
    source = source_of(folder, data)
    whole, one = admitted(source)
    split, many = admitted(source, parts=parts, block_bytes=block_bytes)
    assert split == whole
    assert (many.received, many.rejected, many.line_count) == (
        one.received,
        one.rejected,
        one.line_count,
    )


@given(st.binary(max_size=400))
@settings(deadline=None, max_examples=300)
def test_arbitrary_bytes_never_crash_the_reader(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    refused = ""
    try:
        admitted(source_of(folder, data))
    except BadInputError as error:
        refused = str(error)
    assert not refused or "evidence.jsonl" in refused
