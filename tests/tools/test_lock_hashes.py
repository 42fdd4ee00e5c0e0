from __future__ import annotations

import re
from pathlib import Path

import pytest

import lock_hashes

LINE = re.compile(r"[a-z0-9-]+==[A-Za-z0-9.!+_-]+ --hash=sha256:[0-9a-f]{64}")


def test_both_locks_name_the_same_versions() -> None:
    plain = lock_hashes.pins(lock_hashes.PLAIN.read_text(encoding="utf-8").splitlines())
    lines = lock_hashes.HASHED.read_text(encoding="utf-8").splitlines()
    assert lock_hashes.pins(lines) == plain
    assert [line for line in lines[1:] if not LINE.fullmatch(line)] == []


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "Some_Thing-1.0-py3-none-any.whl").write_bytes(b"")
    (tmp_path / "other-part-2.1.tar.gz").write_bytes(b"")
    files = lock_hashes.hashes(tmp_path)
    assert set(files) == {("some-thing", "1.0"), ("other-part", "2.1")}
    wanted = lock_hashes.pins(["Some.Thing==1.0", "other_part==2.1"])
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    _, first, second = lock_hashes.locked(wanted, files, "here").splitlines()
    assert first == f"some-thing==1.0 --hash=sha256:{empty}"
    assert second == f"other-part==2.1 --hash=sha256:{empty}"


def test_a_package_without_its_file_is_named() -> None:
    with pytest.raises(SystemExit, match="no file for a==1"):
        lock_hashes.locked({"a": "1"}, {}, "here")
