"""The journal of a run: an append-only file of finished calls that survives a kill at any moment.

One line is one write, so a killed process leaves at most one incomplete line at the end, which
reopening removes. A line damaged in another way is set aside and reported, and its call is made
again. The file has two uses: ``resume`` finds a call by content, pins, id and epoch; ``cache``
finds it without the id.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

import msgspec

from gatemark.core.atomic import make_private_folder
from gatemark.core.errors import BadInputError, IntegrityError, InvalidValueError, UsageError
from gatemark.targets.journal_lines import (
    MAX_LINE_BYTES,
    TAIL_BYTES,
    VERSION,
    JournalEntry,
    decode_line,
    encode_line,
    read_journal_lines,
    verify_line,
)
from gatemark.targets.port import Clock

SYNC_EVERY_S: Final = 0.5
LISTED_LINES: Final = 20
KEY_VARIABLE: Final = "GATEMARK_JOURNAL_KEY"
CHANGED: Final = (
    "changed since this run began; something in this run, or another run, writes into the store "
    "(isolate: true keeps a Python target out of it)"
)

Reuse = Literal["nothing", "resume", "cache"]


class _Place(NamedTuple):
    """The position of a line, and its check when it was read or written."""

    offset: int
    length: int
    tail: bytes


class Damage(msgspec.Struct, frozen=True):
    """Damage found on reopening; damaged lines give no outcome."""

    damaged_count: int
    damaged_lines: tuple[int, ...]
    torn_bytes: int

    def messages(self, name: str) -> tuple[str, ...]:
        """Return one sentence per finding."""
        said: list[str] = []
        if self.damaged_count:
            places = ", ".join(map(str, self.damaged_lines))
            more = ", …" if self.damaged_count > len(self.damaged_lines) else ""
            said.append(
                f"{name}: {self.damaged_count} line(s) set aside that are damaged or were not "
                f"written with this {KEY_VARIABLE}; their calls are made again "
                f"(line {places}{more})"
            )
        if self.torn_bytes:
            said.append(f"{name}: a torn last line of {self.torn_bytes} bytes was cut")
        return tuple(said)


class Journal:
    """An open journal file; used by one process at a time."""

    def __init__(
        self, path: Path, *, clock: Clock, sync_every_s: float = SYNC_EVERY_S, key: bytes = b""
    ) -> None:
        self.path = path
        self._key = key
        self._clock = clock
        self._sync_every_s = sync_every_s
        self._exact: dict[tuple[str, str], _Place] = {}
        self._by_content: dict[str, _Place] = {}
        self._content = hashlib.blake2b()
        self._unsynced = False
        self._fd = _open_exclusively(path)
        with ExitStack() as undo:
            undo.callback(os.close, self._fd)
            self.damage = self._recover()
            undo.pop_all()
        self.earlier_bytes = self._end
        """How much of the file is from an earlier run; all of it by default."""
        self._synced_at = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._exact)

    @property
    def content(self) -> str:
        """The digest of every line that was read or written here."""
        return self._content.hexdigest()

    def find(self, key: str, call_id: str, reuse: Reuse) -> JournalEntry | None:
        """Return the finished call, or None; a cache has replies only, never errors."""
        if reuse == "nothing":
            return None
        place = self._exact.get((key, call_id))
        entry = self._read(place) if place else None
        if reuse == "resume" or (entry is not None and entry.reply is not None):
            return entry
        place = self._by_content.get(key)
        return self._read(place) if place else None

    def is_earlier(self, key: str, call_id: str) -> bool:
        """Return whether an earlier run made the call that ``find`` returns."""
        place = self._exact.get((key, call_id)) or self._by_content.get(key)
        return place is not None and place.offset < self.earlier_bytes

    def append(self, entry: JournalEntry) -> None:
        """Write one finished call; it survives a process crash, and after a sync a power loss."""
        line = encode_line(entry, self._key)
        if len(line) > MAX_LINE_BYTES:
            raise InvalidValueError(f"journal line for {entry.id!r} is over {MAX_LINE_BYTES} bytes")
        self._write(line)
        self._remember(entry, line[:-1], self._end)
        self._end += len(line)
        self._unsynced = True
        if self._clock() - self._synced_at >= self._sync_every_s:
            self.sync()

    def sync(self) -> None:
        """Flush everything written to the disk."""
        if self._unsynced:
            os.fsync(self._fd)
            self._unsynced = False
        self._synced_at = self._clock()

    def close(self) -> None:
        """Sync and close; closing twice is harmless."""
        if self._fd >= 0:
            self.sync()
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: bytes) -> None:
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, line[written:] if written else line)
        except OSError:
            # A full disk must not leave half a line before the next one.
            os.ftruncate(self._fd, self._end)
            raise

    def _read(self, place: _Place) -> JournalEntry | None:
        line = os.pread(self._fd, place.length, place.offset)
        if line[-TAIL_BYTES:] != place.tail:
            raise IntegrityError(f"{self.path}: {CHANGED}")
        return decode_line(line, self._key)

    def _remember(self, entry: JournalEntry, line: bytes, offset: int) -> None:
        place = _Place(offset, len(line), line[-TAIL_BYTES:])
        self._content.update(place.tail)
        self._exact[entry.key, entry.id] = place
        if entry.reply is not None:
            self._by_content[entry.key] = place

    def _recover(self) -> Damage:
        damaged: list[int] = []
        damaged_count = 0
        torn_bytes = 0
        self._end = 0
        with os.fdopen(os.dup(self._fd), "rb") as file:
            for number, (offset, line, length, terminated) in enumerate(
                read_journal_lines(file), start=1
            ):
                body = None if line is None else verify_line(line, self._key)
                if body is None and not terminated:
                    torn_bytes = length
                    os.ftruncate(self._fd, offset)
                    break
                if line is None or body is None:
                    damaged_count += 1
                    if len(damaged) < LISTED_LINES:
                        damaged.append(number)
                else:
                    self._admit(body, line, offset, number)
                self._end = offset + length + 1
                if not terminated:
                    os.write(self._fd, b"\n")
                    break
        return Damage(damaged_count, tuple(damaged), torn_bytes)

    def _admit(self, body: bytes, line: bytes, offset: int, number: int) -> None:
        try:
            entry = msgspec.json.decode(body, type=JournalEntry)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadInputError(
                f"{self.path}:{number}: not a line of journal version {VERSION}: {error}"
            ) from error
        if entry.v != VERSION:
            raise BadInputError(
                f"{self.path}:{number}: journal version must be {VERSION}, got {entry.v}"
            )
        self._remember(entry, line, offset)


def _open_exclusively(path: Path) -> int:
    make_private_folder(path.parent)
    new = not path.exists()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise UsageError(f"{path} is in use by another run") from error
    if new:
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    return fd
