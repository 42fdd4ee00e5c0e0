from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.targets.journal import Journal
from gatemark.targets.journal_lines import (
    VERSION,
    JournalEntry,
    compute_call_key,
    decode_line,
    encode_line,
)
from gatemark.targets.port import Call, CallError, Reply

from .rigs import Time
from .test_replies import JSON

READS = frozenset({"input"})


def _entry(number: int, output: object = "yes") -> JournalEntry:
    return JournalEntry(
        v=VERSION,
        key=f"{number:064x}",
        id=f"q{number}",
        epoch=0,
        attempts=1,
        reply=Reply(output=output, latency_ms=1.5),
    )


def _open(path: Path) -> Journal:
    return Journal(path, clock=Time().clock)


def _all(journal: Journal, entries: list[JournalEntry]) -> list[JournalEntry]:
    """Those entries that the journal still knows."""
    return [e for e in entries if journal.find(e.key, e.id, "resume") is not None]


@given(JSON)
@settings(deadline=None, max_examples=100)
def test_a_line_gives_back_its_entry(output: object) -> None:
    entry = _entry(1, output)
    line = encode_line(entry)
    assert line.count(b"\n") == 1
    assert decode_line(line[:-1]) == entry
    assert json.loads(line)["id"] == "q1"


@given(st.binary(max_size=300))
@settings(deadline=None, max_examples=200)
def test_no_bytes_from_elsewhere_are_an_entry(line: bytes) -> None:
    assert decode_line(line) is None


ENTRIES = [
    _entry(0),
    _entry(1, {"a": [1.5, "ü\n"]}),
    JournalEntry(VERSION, "e" * 64, "q2", 0, 3, error=CallError("crash", "boom")),
    _entry(3, None),
]
LINES = [encode_line(entry) for entry in ENTRIES]
WHOLE = b"".join(LINES)
STARTS = [sum(map(len, LINES[:i])) for i in range(len(LINES) + 1)]


@given(st.integers(0, len(WHOLE)))
@settings(deadline=None, max_examples=150)
def test_any_truncation_loses_at_most_the_torn_line(cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(WHOLE[:cut])
        # A line without its newline is whole all the same.
        complete = [e for e, end in zip(ENTRIES, STARTS[1:], strict=True) if cut >= end - 1]
        with _open(path) as journal:
            assert _all(journal, ENTRIES) == complete
            assert [journal.find(e.key, e.id, "resume") for e in complete] == complete
            torn = cut - max(s for s in STARTS if s <= cut) if cut + 1 not in STARTS else 0
            assert journal.damage.torn_bytes == torn
            assert journal.damage.damaged_count == 0
            journal.append(_entry(9))
        with _open(path) as again:
            assert _all(again, [*ENTRIES, _entry(9)]) == [*complete, _entry(9)]
            assert again.damage.messages("j") == ()


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
@settings(deadline=None, max_examples=300)
def test_any_flipped_byte_loses_at_most_the_lines_it_touches_and_says_so(
    position: int, mask: int
) -> None:
    damaged = bytearray(WHOLE)
    damaged[position] ^= mask
    hit = next(i for i in range(len(LINES)) if position < STARTS[i + 1])
    on_newline = position == STARTS[hit + 1] - 1
    touched = {hit, hit + 1} if on_newline else {hit}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(damaged)
        with _open(path) as journal:
            for number, entry in enumerate(ENTRIES):
                found = journal.find(entry.key, entry.id, "resume")
                assert found in ((None,) if number in touched else (entry,))
            assert len(journal) == len(ENTRIES) - len(touched & set(range(len(LINES))))
            assert journal.damage.messages("run.jsonl")
            # What comes after damage is found again.
            journal.append(_entry(9))
        with _open(path) as again:
            assert again.find(_entry(9).key, "q9", "resume") == _entry(9)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE)), st.binary(max_size=40)), max_size=4))
@settings(deadline=None, max_examples=150)
def test_splicing_in_bytes_never_invents_an_outcome(splices: list[tuple[int, bytes]]) -> None:
    data = WHOLE
    for position, piece in splices:
        data = data[:position] + piece + data[position:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(data)
        with _open(path) as journal:
            assert len(journal) <= len(ENTRIES)
            for entry in ENTRIES:
                assert journal.find(entry.key, entry.id, "resume") in (None, entry)


def test_damage_is_told_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(LINES[0] + b"rubbish\n" + LINES[1] + b"\n" + LINES[3][:-30])
    with _open(path) as journal:
        torn = len(LINES[3]) - 30
        assert journal.damage.messages("run.jsonl") == (
            "run.jsonl: 2 line(s) set aside that are damaged or were not written with this "
            "GATEMARK_JOURNAL_KEY; their calls are made again (line 2, 4)",
            f"run.jsonl: a torn last line of {torn} bytes was cut",
        )


def test_the_later_line_of_a_call_wins(tmp_path: Path) -> None:
    failed = JournalEntry(VERSION, "a" * 64, "q", 0, 1, error=CallError("crash", "x"))
    fine = JournalEntry(VERSION, "a" * 64, "q", 0, 2, reply=Reply(output=1, latency_ms=None))
    with _open(tmp_path / "j") as journal:
        journal.append(failed)
        assert journal.find("a" * 64, "q", "resume") == failed
        journal.append(fine)
    with _open(tmp_path / "j") as journal:
        assert journal.find("a" * 64, "q", "resume") == fine
        assert len(journal) == 1


def test_a_cache_ignores_ids_and_errors(tmp_path: Path) -> None:
    with _open(tmp_path / "j") as journal:
        journal.append(_entry(1))
        journal.append(JournalEntry(VERSION, "e" * 64, "q2", 0, 1, error=CallError("crash", "x")))
        assert journal.find(_entry(1).key, "another", "cache") == _entry(1)
        assert journal.find(_entry(1).key, "another", "resume") is None
        assert journal.find(_entry(1).key, "q1", "nothing") is None
        assert journal.find("e" * 64, "q2", "cache") is None
        assert journal.find("e" * 64, "q2", "resume") is not None


def test_two_runs_cannot_share_a_journal(tmp_path: Path) -> None:
    with (
        _open(tmp_path / "j"),
        pytest.raises(UsageError, match="is in use by another run"),
    ):
        _open(tmp_path / "j")
    _open(tmp_path / "j").close()


def test_another_version_is_refused_not_dropped(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(encode_line(msgspec.structs.replace(_entry(1), v=2)))
    with pytest.raises(BadInputError, match="j:1: journal version must be 1, got 2"):
        _open(tmp_path / "j")


def test_the_disk_is_synced_twice_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[float] = []
    time_source = Time()
    real = os.fsync

    def counting(fd: int) -> None:
        synced.append(time_source.now)
        real(fd)

    monkeypatch.setattr(os, "fsync", counting)
    with Journal(tmp_path / "j", clock=time_source.clock) as journal:
        synced.clear()
        for number in range(100):
            time_source.now += 0.02
            journal.append(_entry(number))
        during = len(synced)
        time_source.now += 0.01
    assert 3 <= during <= 4
    assert len(synced) == during + 1


def test_every_line_is_in_the_file_before_append_returns(tmp_path: Path) -> None:
    with _open(tmp_path / "j") as journal:
        for number in range(3):
            journal.append(_entry(number))
            assert (tmp_path / "j").read_bytes().endswith(encode_line(_entry(number)))


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with _open(tmp_path / "j") as journal:
        journal.append(_entry(1))

        def full(fd: int, data: bytes) -> int:
            if len(data) > 20:
                return real(fd, data[:20])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            journal.append(msgspec.structs.replace(_entry(2), id="q" * (20 - len(LINES[0]) % 20)))
        monkeypatch.undo()
        journal.append(_entry(3))
    with _open(tmp_path / "j") as journal:
        assert journal.damage.messages("j") == ()
        assert _all(journal, [_entry(1), _entry(2), _entry(3)]) == [_entry(1), _entry(3)]


def test_the_key_covers_what_the_target_reads_and_nothing_else() -> None:
    call = Call(id="q", epoch=0, input={"a": 1, "b": 2}, sample={"target": "x"})
    key = compute_call_key("pins", call, READS)
    same = Call(id="other", epoch=0, input={"b": 2, "a": 1}, sample={"target": "y"})
    assert compute_call_key("pins", same, READS) == key
    different = [
        compute_call_key("other pins", call, READS),
        compute_call_key("pins", msgspec.structs.replace(call, epoch=1), READS),
        compute_call_key("pins", msgspec.structs.replace(call, input={"a": 1, "b": 2.5}), READS),
        compute_call_key("pins", call, frozenset({"input", "sample"})),
    ]
    assert len({key, *different}) == 5


def test_an_input_that_is_not_json_has_no_key() -> None:
    with pytest.raises(InvalidValueError, match="call 'q', epoch 0 must hold plain JSON"):
        compute_call_key("pins", Call(id="q", epoch=0, input=float("nan")), READS)


def test_an_entry_is_a_reply_or_an_error() -> None:
    with pytest.raises(InvalidValueError, match="a reply or an error, not both"):
        JournalEntry(VERSION, "a", "q", 0, 1)
