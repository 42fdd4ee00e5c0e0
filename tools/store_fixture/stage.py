"""Run Gatemark's own commands in this process, as several people, on a clock of our own.

Stories are written as commands and not as calls of Python functions: commands and flags are a
contract, so that a story still works when modules move.
"""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from gatemark.cli.main import main
from gatemark.workspace import Workspace

START: Final = datetime(2026, 3, 2, 8, tzinfo=UTC)
"""When every story begins: a Monday in the past, so that a later build can add to the store."""

WORKER: Final = "worker-1"
"""The name of the machine that schedules are run by; the real name stays out of fixtures."""


class Clock:
    """A clock that moves when it is told to, and by a millisecond whenever it is read."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    def add(self, **span: float) -> None:
        """Let some time pass."""
        self.now += timedelta(**span)

    def reach(self, moment: datetime) -> None:
        """Let time pass until a moment; does nothing when that is over already."""
        self.now = max(self.now, moment)


class Stage:
    """A folder to work in, a store, a clock, and people who run commands."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.store = store
        self.clock = Clock(START)
        lists = ("keys", "checkpoints", "reviews", "label_sets", "attributions")
        self.notes: dict[str, Any] = {name: [] for name in lists}

    def run(self, *words: object, actor: str = "ana", codes: Sequence[int] = (0,)) -> str:
        """Run one command a minute after the last one, and return what it printed."""
        code, out, err = self._ended(words, actor)
        if code not in codes:
            told = "\n".join((out[-2000:], err[-2000:]))
            raise RuntimeError(f"{' '.join(map(str, words))}: exit {code}, not {codes}\n{told}")
        return out

    def code(self, *words: object, actor: str = "ana") -> int:
        """Run one command and return its exit code, whatever it is."""
        return self._ended(words, actor)[0]

    def _ended(self, words: Sequence[object], actor: str) -> tuple[int, str, str]:
        self.clock.add(minutes=1)
        out, err = io.StringIO(), io.StringIO()
        # Commands without --actor take the login name.
        os.environ["LOGNAME"] = os.environ["GATEMARK_ACTOR"] = actor
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(word) for word in words])
        return code, out.getvalue(), err.getvalue()

    def json(self, *words: object, actor: str = "ana", codes: Sequence[int] = (0,)) -> Any:
        """Run a command with ``--json`` and return its document."""
        return json.loads(self.run(*words, "--json", actor=actor, codes=codes))

    def refused(self, *words: object, actor: str = "ana") -> None:
        """Run a command that must be refused."""
        self.run(*words, actor=actor, codes=(1,))

    def write(self, name: str, text: str) -> str:
        """Write a text file into the folder and return its relative name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    def lines(self, name: str, rows: Iterable[Mapping[str, Any]]) -> str:
        """Write JSON Lines into the folder and return the relative name."""
        return self.write(name, "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))


@contextmanager
def stage(folder: Path, store: str) -> Iterator[Stage]:
    """Work in a folder by relative names, with the clock put into every workspace that opens."""
    made = Stage(folder.resolve(), store)
    before = Path.cwd()
    environment = dict(os.environ)
    defaults: dict[str, Any] = Workspace.__init__.__kwdefaults__ or {}
    hostname = socket.gethostname
    usual: Callable[[], datetime] = defaults["clock"]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        os.chdir(folder)
        os.environ["GATEMARK_STORE"] = store
        defaults["clock"] = made.clock
        socket.gethostname = lambda: WORKER
        yield made
    finally:
        socket.gethostname = hostname
        defaults["clock"] = usual
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(before)
