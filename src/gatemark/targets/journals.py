"""The journals of one run: one for each arm and judge, in the run's folder or in the cache.

Examined code may be able to write here while it runs. So a run uses nothing from a file that
changed since the run began, or since the run closed it. A key protects against lines that were left
for a later run: with ``GATEMARK_JOURNAL_KEY`` only its holders can write a line that is read.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gatemark.core.atomic import make_private_folder
from gatemark.core.canonical import DIGEST_PREFIX, digest
from gatemark.core.errors import IntegrityError, UsageError
from gatemark.targets.journal import CHANGED, KEY_VARIABLE, Journal, Reuse

MIN_KEY_CHARACTERS: Final = 16


def read_journal_key(environ: Mapping[str, str]) -> bytes:
    """Return the key that authenticates journal lines; empty if the environment has none.

    No target receives it.
    """
    value = environ.get(KEY_VARIABLE, "").strip()
    if not value:
        return b""
    if len(value) < MIN_KEY_CHARACTERS:
        raise UsageError(
            f"{KEY_VARIABLE} must have at least {MIN_KEY_CHARACTERS} characters, got {len(value)}; "
            "make one with: openssl rand -hex 32"
        )
    return hashlib.sha256(value.encode()).digest()


class Journals:
    """The journals of one run, created before any code of an arm runs; ``folder`` is set later."""

    def __init__(
        self, cache: Path | None = None, *, is_new: bool = False, key: bytes = b""
    ) -> None:
        self.folder = Path()
        self.on_notice: Callable[[str], None] | None = None
        self._cache = cache
        self._is_new = is_new
        self._key = key
        self._opened: dict[Path, Journal] = {}
        self._before = {} if cache is None else _read_states(cache)

    @property
    def reuse(self) -> Reuse:
        """What a run may reuse from its journals."""
        return "resume" if self._cache is None else "cache"

    @property
    def is_authenticated(self) -> bool:
        """Whether only holders of a key can have written what is read."""
        return bool(self._key)

    def open(self, name: str, identity: Mapping[str, Any]) -> Journal:
        """Open the journal of an arm or a judge; ``identity`` is that of its target."""
        name = name.replace(" ", "-").replace("/", "+")
        if self._cache is None:
            path = self.folder / f"{name}.journal"
        else:
            pins = digest(dict(identity)).removeprefix(DIGEST_PREFIX)[:32]
            path = self._cache / f"{name}-{pins}.journal"
        make_private_folder(path.parent)
        earlier = self._opened.get(path)
        if earlier is None:
            self._refuse_changed(path)
        journal = Journal(path, clock=time.monotonic, key=self._key)
        if earlier is not None:
            if earlier.content != journal.content:
                journal.close()
                raise IntegrityError(f"{path}: {CHANGED}")
            journal.earlier_bytes = earlier.earlier_bytes
        elif self.on_notice is not None:
            for said in journal.damage.messages(path.name):
                self.on_notice(said)
        self._opened[path] = journal
        return journal

    def _refuse_changed(self, path: Path) -> None:
        """Raise if the file changed: a candidate could answer in place of a baseline or judge."""
        if self._cache is not None and _read_state(path) != self._before.get(path.name):
            raise IntegrityError(f"{path}: {CHANGED}")
        if self._cache is None and self._is_new and path.exists():
            raise IntegrityError(
                f"{path}: was written before anybody asked; something in this run writes into the "
                "store (isolate: true keeps a Python target out of it)"
            )


_State = tuple[int, int, int, int]


def _read_states(folder: Path) -> dict[str, _State]:
    found = {path.name: _read_state(path) for path in folder.glob("*.journal")}
    return {name: state for name, state in found.items() if state is not None}


def _read_state(path: Path) -> _State | None:
    """Return the state that changes with every write to a file; None if it is missing."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
