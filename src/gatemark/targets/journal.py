"""Calls that were already answered: the journal of a run, and recordings.

A journal is an append-only file of finished calls that survives a kill at any moment: JSON lines,
each of which ends in a ``check`` over the bytes before it. One line is one write, so a killed
process leaves at most one incomplete line at the end, which reopening removes. A line damaged in
another way is set aside and reported, and its call is made again. The file has two uses: ``resume``
finds a call by content, pins, id and epoch; ``cache`` finds it without the id.

Examined code may be able to write here while it runs. So a run uses nothing from a file that
changed since the run began, or since the run closed it. A key protects against lines that were left
for a later run: with ``GATEMARK_JOURNAL_KEY`` only its holders can write a line that is read.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, NamedTuple, Self, cast, get_args

import msgspec

from gatemark.core.atomic import make_private_folder
from gatemark.core.canonical import DIGEST_PREFIX, digest
from gatemark.core.errors import BadInputError, IntegrityError, InvalidValueError, UsageError
from gatemark.targets.port import Call, CallError, CallPart, ErrorKind, Reply, TargetError

VERSION: Final = 1
MAX_LINE_BYTES: Final = 256 * 1024 * 1024
SYNC_EVERY_S: Final = 0.5
LISTED_LINES: Final = 20
KEY_VARIABLE: Final = "GATEMARK_JOURNAL_KEY"
MIN_KEY_CHARACTERS: Final = 16
_CHECK_BYTES: Final = 8
_CHANGED: Final = (
    "changed since this run began; something in this run, or another run, writes into the store "
    "(isolate: true keeps a Python target out of it)"
)
_TAIL_BYTES: Final = len(b',"check":""}') + 2 * _CHECK_BYTES

Clock = Callable[[], float]
Reuse = Literal["nothing", "resume", "cache"]

_encode = msgspec.json.Encoder().encode
# Keys are computed once per sample: the C encoder is ten times faster than RFC 8785 in Python,
# accepts integers of any size, and refuses NaN. They are used in this file only, never sealed.
_key_text = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
).encode


class JournalEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One finished call."""

    v: int
    key: str
    id: str
    epoch: int
    attempts: int
    reply: Reply | None = None
    error: CallError | None = None

    def __post_init__(self) -> None:
        if (self.reply is None) == (self.error is None):
            raise InvalidValueError(
                f"journal entry {self.id!r} needs a reply or an error, not both"
            )


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


def call_key(pins: str, call: Call, reads: frozenset[CallPart]) -> str:
    """Return the digest of everything that can change the reply: pins, epoch, parts read."""
    content: dict[str, Any] = {part: getattr(call, part) for part in reads}
    try:
        text = _key_text([pins, call.epoch, content])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(
            f"call {call.id!r}, epoch {call.epoch} must hold plain JSON: {error}"
        ) from error
    return hashlib.sha256(text.encode()).hexdigest()


def journal_key(environ: Mapping[str, str]) -> bytes:
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


def encode_line(entry: JournalEntry, key: bytes = b"") -> bytes:
    """Encode the entry as one line with its check."""
    body = _encode(entry)
    return body[:-1] + b',"check":"' + _check(body, key) + b'"}\n'


def decode_line(line: bytes, key: bytes = b"") -> JournalEntry | None:
    """Decode a line (without its newline); return None if it is damaged."""
    body = _verified_body(line, key)
    return None if body is None else msgspec.json.decode(body, type=JournalEntry)


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
        self._fd = _open_alone(path)
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
        if line[-_TAIL_BYTES:] != place.tail:
            raise IntegrityError(f"{self.path}: {_CHANGED}")
        return decode_line(line, self._key)

    def _remember(self, entry: JournalEntry, line: bytes, offset: int) -> None:
        place = _Place(offset, len(line), line[-_TAIL_BYTES:])
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
            for number, (offset, line, length, terminated) in enumerate(_lines(file), start=1):
                body = None if line is None else _verified_body(line, self._key)
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


def _open_alone(path: Path) -> int:
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


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None, int, bool]]:
    """Yield offset, bytes (None if too long), length without newline, and whether it has one."""
    offset = 0
    while piece := file.readline(MAX_LINE_BYTES):
        line: bytes | None = piece
        size = len(piece)
        while not piece.endswith(b"\n") and (piece := file.readline(MAX_LINE_BYTES)):
            line = None
            size += len(piece)
        terminated = piece.endswith(b"\n")
        length = size - terminated
        yield (offset, None if line is None else line[:length], length, terminated)
        offset += size


def _verified_body(line: bytes, key: bytes) -> bytes | None:
    """Return the bytes that the check covers, or None if they do not match it."""
    body = line[:-_TAIL_BYTES] + b"}"
    if line[-_TAIL_BYTES:] != b',"check":"' + _check(body, key) + b'"}':
        return None
    return body


def _check(body: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECK_BYTES, key=key).hexdigest().encode()


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
        self._before = {} if cache is None else _states(cache)

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
                raise IntegrityError(f"{path}: {_CHANGED}")
            journal.earlier_bytes = earlier.earlier_bytes
        elif self.on_notice is not None:
            for said in journal.damage.messages(path.name):
                self.on_notice(said)
        self._opened[path] = journal
        return journal

    def _refuse_changed(self, path: Path) -> None:
        """Raise if the file changed: a candidate could answer in place of a baseline or judge."""
        if self._cache is not None and _state(path) != self._before.get(path.name):
            raise IntegrityError(f"{path}: {_CHANGED}")
        if self._cache is None and self._is_new and path.exists():
            raise IntegrityError(
                f"{path}: was written before anybody asked; something in this run writes into the "
                "store (isolate: true keeps a Python target out of it)"
            )


_State = tuple[int, int, int, int]


def _states(folder: Path) -> dict[str, _State]:
    found = {path.name: _state(path) for path in folder.glob("*.journal")}
    return {name: state for name, state in found.items() if state is not None}


def _state(path: Path) -> _State | None:
    """Return the state that changes with every write to a file; None if it is missing."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


UNSCORED = "unscored"
"""The kind of error for an answer without a score."""
_OURS = frozenset(get_args(ErrorKind))

UtcMoment = Annotated[datetime, msgspec.Meta(tz=True)]
Recording = Mapping[tuple[str, int], Reply | CallError]


class RecordedTarget:
    """Replies by (id, epoch). ``digest`` is that of the recording's bytes."""

    reads: frozenset[CallPart] = frozenset()

    def __init__(self, recording: Recording, *, digest: str) -> None:
        self._recording = recording
        self._digest = digest
        first = next(iter(recording), None)
        self._example = (
            "the recording is empty"
            if first is None
            else f"ids in the recording look like {first[0]!r}"
        )

    async def call(self, call: Call) -> Reply:
        found = self._recording.get(call.key)
        if found is None:
            raise TargetError(
                "missing",
                f"nothing was recorded for id {call.id!r}, epoch {call.epoch}; {self._example}",
            )
        if isinstance(found, CallError):
            raise TargetError(found.kind, found.message)
        return found

    async def close(self) -> None:
        return None

    def identity(self) -> dict[str, Any]:
        return {"kind": "recorded", "digest": self._digest}


def recording_from_samples(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], Any]:
    """Return replies from ``gatemark.sample/1`` rows; refuse duplicates.

    An errored row stays an error. A row that was answered but not scored is an answer: the current
    scorer may be able to score it. An unknown kind of error is kept in the message.
    """
    recording: dict[tuple[str, int], Reply | CallError] = {}
    for row in rows:
        key = (row["id"], row["epoch"])
        if key in recording:
            raise BadInputError(f"id {key[0]!r}, epoch {key[1]} was recorded twice")
        error = row.get("error")
        if error is None or error["kind"] == UNSCORED:
            recording[key] = Reply(
                output=row.get("output"),
                latency_ms=row.get("latency_ms"),
                confidence=row.get("confidence"),
                cost=row.get("cost"),
                usage=None if row.get("tokens") is None else {"total_tokens": row["tokens"]},
                answered_at=_answered_at(row),
            )
        else:
            recording[key] = _recorded_error(error["kind"], error["message"])
    return recording


def _answered_at(row: Mapping[str, Any]) -> datetime | None:
    try:
        return msgspec.convert(row.get("answered_at"), UtcMoment | None)
    except msgspec.ValidationError as error:
        place = f"id {row['id']!r}, epoch {row['epoch']}"
        raise BadInputError(f"{place}: answered_at: {error}") from error


def _recorded_error(kind: str, message: str) -> CallError:
    if kind in _OURS:
        return CallError(cast("ErrorKind", kind), message)
    return CallError("recorded", f"{kind}: {message}")
