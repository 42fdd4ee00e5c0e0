from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import ForeignLimits, open_foreign

GIGABYTE = 1 << 30


def bounded(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command that may use a gigabyte and a half, as everything before it needs some."""
    most = GIGABYTE * 3 // 2
    return subprocess.run(
        [sys.executable, "-m", "gatemark", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def packed_bomb() -> bytes:
    """Packing takes longer than refusing."""
    return gzip.compress(b"[" + b"[]," * (80 << 20) + b"[]]", compresslevel=1)


@pytest.mark.parametrize("tool", ["auto", "mlflow"])
def test_a_small_file_that_unpacks_to_millions_of_arrays_is_refused(
    tmp_path: Path, packed_bomb: bytes, tool: str
) -> None:
    bomb = tmp_path / "log.json.gz"
    bomb.write_bytes(packed_bomb)
    ran = bounded("import", bomb, "--from", tool, "-o", tmp_path / "out.jsonl")
    assert (ran.returncode, "unpacks to more than" in ran.stderr) == (2, True)


def test_a_file_of_millions_of_arrays_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "log.json"
    bomb.write_bytes(b"[" + b"[]," * (11 << 20) + b"[]]")
    ran = bounded("import", bomb, "--from", "mlflow", "-o", tmp_path / "out.jsonl")
    assert (ran.returncode, "arrays and objects" in ran.stderr) == (2, True)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for command in (("import", pipe), ("import", "/dev/zero"), ("attribute", pipe)):
        more = ("-o", tmp_path / "out.jsonl") if command[0] == "import" else ()
        ran = bounded(*command, *more)
        assert (command, ran.returncode) == (command, 2)
        assert "expected a regular file" in ran.stderr


def test_a_log_is_a_regular_file_whoever_reads_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    both = os.open(pipe, os.O_RDWR)
    os.write(both, b"[]")
    try:
        with pytest.raises(BadInputError, match="expected a regular file"):
            open_foreign(pipe, ForeignLimits())
    finally:
        os.close(both)


def test_a_report_of_millions_of_arrays_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "report.json"
    bomb.write_bytes(b"[" + b"[]," * (11 << 20) + b"[]]")
    ran = bounded("overhead", "verify", bomb, "--bare", bomb)
    assert (ran.returncode, "arrays and objects" in ran.stderr) == (2, True)


def test_decisions_with_millions_of_arrays_are_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "decision.json"
    bomb.write_bytes(b"[" + b"[]," * (2 << 20) + b"[]]")
    ran = bounded("attribute", bomb)
    assert (ran.returncode, "arrays and objects" in ran.stderr) == (2, True)


def test_millions_of_blank_lines_before_the_first_record_are_only_counted(tmp_path: Path) -> None:
    """Cutting them off one by one would copy the rest each time, for hours."""
    bomb = tmp_path / "arm.jsonl"
    bomb.write_bytes(b"\n \n\t\r\n" + b"\n" * (24 << 20) + b"  {}\n")
    ran = bounded("score", "overhead", "--bare", bomb, "--guarded", bomb)
    assert ran.returncode == 2
    assert f'arm.jsonl:{3 + (24 << 20) + 1}: key "arm" is missing' in ran.stderr
