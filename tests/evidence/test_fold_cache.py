from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.plugins.advisory.decisions import LANE, decision, good_lane

from gatemark.evidence import fold_cache, fold_files
from gatemark.evidence.exam import ExamRun
from gatemark.evidence.fold_cache import CachePolicy, Stamp, settled_stamp
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.run_exam import run_exam
from gatemark.evidence.source import Source
from gatemark.workspace import Workspace

LATER = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture(autouse=True)
def small_files_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_cache, "MIN_BYTES", 1)
    monkeypatch.setattr(fold_files, "MIN_BYTES", 1)
    monkeypatch.setattr(fold_files, "SHARD_BYTES", 40_000)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that were really done, by the kind of what was read."""
    done: list[str] = []
    examine = fold_files.examine_shard

    def watched(job: Any, shard: Any, *watch: Any) -> bytes:
        done.append(type(shard).__name__)
        return examine(job, shard, *watch)

    monkeypatch.setattr(fold_files, "examine_shard", watched)
    return done


class Desk:
    """Scores files with facts kept in one folder, an hour after they were written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "facts"
        self.now = LATER

    def score(self, *paths: Path, trusted: bool = True, **more: Any) -> bytes:
        keeping = CachePolicy(self.folder, lambda: self.now, trusted=trusted)
        choices = more.pop("choices", ReadingChoices())
        options = {"policy": more.pop("policy", {})}
        examined = run_exam(
            ExamRun(
                kind="advisory",
                options=options,
                files=[("decisions", str(path)) for path in paths],
                reading=choices,
                engine=Workspace(jobs=1).engine,
                cache=keeping,
                **more,
            )
        )
        return msgspec.json.encode((examined.report, examined.evidence))

    @property
    def entries(self) -> list[Path]:
        return sorted(self.folder.glob("*.facts"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def file(write_jsonl: Callable[..., Path]) -> Path:
    return write_jsonl("d.jsonl", [*good_lane(), decision(999, {"notes": ["mail a@b.org"]})])


def test_the_second_score_reads_nothing_and_changes_no_bit(
    desk: Desk, file: Path, reads: list[str]
) -> None:
    first = desk.score(file)
    assert reads.count("Shard") > 1
    reads.clear()
    assert desk.score(file) == first
    assert reads == []


def test_a_copy_of_the_file_is_known_by_its_digest(
    desk: Desk, file: Path, tmp_path: Path, reads: list[str]
) -> None:
    first = desk.score(file)
    copy = tmp_path / "elsewhere" / "d.jsonl"
    copy.parent.mkdir()
    copy.write_bytes(file.read_bytes())
    reads.clear()
    assert desk.score(copy).replace(str(copy).encode(), str(file).encode()) == first
    assert reads == []


def test_a_changed_file_of_the_same_size_is_read_again(
    desk: Desk, file: Path, reads: list[str]
) -> None:
    first = desk.score(file)
    file.write_bytes(
        file.read_bytes().replace(b'"can_write_memory": false', b'"can_write_memory":  true', 1)
    )
    reads.clear()
    second = desk.score(file)
    assert second != first
    assert b'"authority_flag_violation_count":1' in second
    assert "Shard" in reads


def test_a_change_that_kept_its_times_is_found_by_the_checksum(
    desk: Desk, file: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = desk.score(file)
    before = fold_cache.stamp_of(Source(str(file), str(file), "none", file.stat().st_size))
    file.write_bytes(
        file.read_bytes().replace(b'"can_write_memory": false', b'"can_write_memory":  true', 1)
    )
    monkeypatch.setattr(fold_cache, "stamp_of", lambda _: before)
    reads.clear()
    assert desk.score(file) != first
    assert "Shard" in reads


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: b"\x00" * 32 + data[32:],
        lambda data: data + b"x",
    ],
)
def test_a_damaged_entry_is_ignored_and_rebuilt(
    damage: Callable[[bytes], bytes], desk: Desk, file: Path, reads: list[str]
) -> None:
    first = desk.score(file)
    (entry,) = desk.entries
    good = entry.read_bytes()
    entry.write_bytes(damage(good))
    reads.clear()
    assert desk.score(file) == first
    assert "Shard" in reads
    reads.clear()
    assert desk.score(file) == first
    assert reads == []


def test_another_files_entry_under_this_ones_name_is_ignored(
    desk: Desk, file: Path, tmp_path: Path, reads: list[str]
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(file.read_bytes().replace(b'"label": "escalate"', b'"label": "suppress"'))
    foreign = desk.score(other)
    (entry,) = desk.entries
    genuine = desk.score(file)
    (name,) = [path for path in desk.entries if path != entry]
    name.write_bytes(entry.read_bytes())
    reads.clear()
    assert desk.score(file) == genuine != foreign
    assert "Shard" in reads


def test_sealing_does_not_trust_what_was_kept(desk: Desk, file: Path, reads: list[str]) -> None:
    first = desk.score(file)
    reads.clear()
    assert desk.score(file, trusted=False) == first
    assert "Shard" in reads


def test_other_bounds_use_the_same_facts_and_other_labels_do_not(
    desk: Desk, file: Path, reads: list[str]
) -> None:
    desk.score(file)
    reads.clear()
    strict: dict[str, Any] = {"lanes": {LANE: {"bounds": {"agreement_rate_min": 0.99}}}}
    desk.score(file, policy=strict)
    assert reads == []
    desk.score(file, policy={"privacy": {"note_chars_max": 200}})
    assert "Shard" in reads
    assert len(desk.entries) == 2


def test_a_looser_reading_is_kept_apart(desk: Desk, file: Path, reads: list[str]) -> None:
    desk.score(file, choices=ReadingChoices(check_duplicate_keys=False))
    reads.clear()
    desk.score(file)
    assert "Shard" in reads


def test_unclean_files_are_not_kept(desk: Desk, write_jsonl: Callable[..., Path]) -> None:
    choices = ReadingChoices(on_bad_line="exclude", on_duplicate="first")
    desk.score(write_jsonl("bad.jsonl", [*good_lane(), "{}"]), choices=choices)
    assert desk.entries == []


def test_ids_that_come_twice_across_kept_files_are_still_found(
    desk: Desk, file: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(file.read_bytes())
    desk.score(file)
    with pytest.raises(Exception, match="was seen before"):
        desk.score(file, copy)


def test_kept_and_fresh_files_stay_in_order(
    desk: Desk, file: Path, write_jsonl: Callable[..., Path]
) -> None:
    later = write_jsonl("e.jsonl", [decision(5000 + n, {"notes": ["x@y.org"]}) for n in range(30)])
    plain = Desk(desk.folder.parent / "untouched")
    expected = [plain.score(file, later), plain.score(later, file)]
    desk.score(file)
    assert [desk.score(file, later), desk.score(later, file)] == expected
    assert [desk.score(file, later), desk.score(later, file)] == expected


def test_a_store_that_cannot_be_written_is_no_error(desk: Desk, file: Path) -> None:
    desk.folder.write_text("in the way")
    assert desk.score(file)


def test_a_young_file_is_known_by_its_digest_only() -> None:
    moment = datetime(2026, 6, 6, tzinfo=UTC)
    nanoseconds = int(moment.timestamp()) * 10**9
    stamp = Stamp(1, 2, 3, nanoseconds, nanoseconds)
    assert settled_stamp(stamp, stamp, moment + timedelta(seconds=1)) is None
    assert settled_stamp(stamp, stamp, moment + timedelta(seconds=3)) == stamp
    moved = msgspec.structs.replace(stamp, changed_ns=nanoseconds + 1)
    assert settled_stamp(stamp, moved, moment + timedelta(hours=1)) is None


def test_small_files_leave_no_facts(
    desk: Desk, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_cache, "MIN_BYTES", 1 << 30)
    monkeypatch.setattr(fold_files, "MIN_BYTES", 1 << 30)
    desk.score(file)
    assert not desk.folder.exists()
