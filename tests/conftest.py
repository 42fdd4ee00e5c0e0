from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gatemark.cli.main import main


class Ran(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def gatemark(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command in this process, as a shell would."""

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return Ran(int(code), captured.out, captured.err)

    return run


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[[str, Sequence[Any]], Path]:
    """Write records, or raw lines, into a file of the test's own folder."""

    def write(name: str, records: Sequence[Any]) -> Path:
        path = tmp_path / name
        lines = [line if isinstance(line, str) else json.dumps(line) for line in records]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return write
