"""Cache of the facts of evidence files, so that scoring a file again need not read it again.

A file is recognised by the SHA-256 of its bytes. Where the operating system says that it is the
same file, unchanged since its digest was taken, and its fast checksum agrees, the digest is not
computed again. A damaged entry, or one for another question, is ignored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Literal

import msgspec
import xxhash

from gatemark.core.atomic import write_whole
from gatemark.core.canonical import DIGEST_PREFIX, digest, same_digest
from gatemark.core.errors import BadInputError
from gatemark.core.measurement import EvidenceFile
from gatemark.evidence.inputs import INPUTS_VERSION
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import Source, digest_source

MIN_BYTES: Final = 16 * 1024 * 1024
"""Reading smaller files again is faster than looking up their facts."""
_SETTLED: Final = timedelta(seconds=2)
_SEAL_BYTES: Final = 32
_PIECE: Final = 1 << 20


class Stamp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identity of a file by the operating system; any write changes it."""

    device: int
    inode: int
    byte_count: int
    modified_ns: int
    changed_ns: int


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of one file: the columns of its ids and times, and its counted cells.

    ``key`` names how it was read and for which exam. ``stamp`` is missing if the file was so
    new that a write could have gone unnoticed.
    """

    format: Literal["gatemark.facts/1"]
    key: str
    digest: str
    byte_count: int
    checksum: str
    stamp: Stamp | None
    line_count: int
    accepted: int
    ids: bytes
    state: bytes


class CachePolicy(msgspec.Struct, frozen=True):
    """The folder of cached facts, and whether they may replace reading."""

    folder: Path
    clock: Callable[[], datetime]
    trusted: bool = True

    def known(self, sources: Sequence[Source], key: str) -> dict[str, Kept]:
        """Return the facts of the files that are cached, by path."""
        found = {source.path: self._find(source, key) for source in sources if self.trusted}
        return {path: kept for path, kept in found.items() if kept is not None}

    def _find(self, source: Source, key: str) -> Kept | None:
        """Return the facts of a file as it is now, or None."""
        if source.byte_count < MIN_BYTES or not self.folder.is_dir():
            return None
        names = sorted(self.folder.glob(f"{source.byte_count}-*-{_shorten_key(key)}.facts"))
        candidates = [kept for name in names if (kept := _read(name, source, key)) is not None]
        if not candidates:
            return None
        stamp = stamp_of(source)
        for kept in candidates:
            if kept.stamp == stamp and kept.checksum == checksum_of(source):
                return kept
        found = digest_source(source).digest
        return next((kept for kept in candidates if same_digest(kept.digest, found)), None)

    def keep(
        self,
        source: Source,
        file: EvidenceFile,
        before: Stamp | None,
        *,
        key: str,
        line_count: int,
        ids: bytes,
        state: bytes,
    ) -> None:
        """Write the facts of a file that had the stamp ``before`` when reading began.

        A cache that cannot be written is ignored.
        """
        kept = Kept(
            format="gatemark.facts/1",
            key=key,
            digest=file.digest,
            byte_count=file.byte_count,
            checksum=checksum_of(source),
            stamp=settled_stamp(before, stamp_of(source), self.clock()),
            line_count=line_count,
            accepted=len(ids) // 8,
            ids=ids,
            state=state,
        )
        data = msgspec.msgpack.encode(kept)
        name = (
            f"{kept.byte_count}-{kept.digest.removeprefix(DIGEST_PREFIX)}-{_shorten_key(key)}.facts"
        )
        with suppress(BadInputError):
            write_whole(self.folder / name, [hashlib.sha256(data).digest(), data], is_private=True)


def facts_key(kind: str, facts: str, choices: ReadingChoices) -> str:
    """Return a key of an exam, what its states depend on, and how it reads."""
    return digest(
        {
            "exam": kind,
            "facts": facts,
            "limits": msgspec.to_builtins(choices.limits),
            "duplicate_keys": choices.check_duplicate_keys,
            "inputs": INPUTS_VERSION,
        }
    )


def stamp_of(source: Source) -> Stamp | None:
    """Return the current stamp of a file; None if it is gone."""
    try:
        info = os.stat(source.path)  # noqa: PTH116
    except OSError:
        return None
    return Stamp(
        device=info.st_dev,
        inode=info.st_ino,
        byte_count=info.st_size,
        modified_ns=info.st_mtime_ns,
        changed_ns=info.st_ctime_ns,
    )


def settled_stamp(before: Stamp | None, after: Stamp | None, now: datetime) -> Stamp | None:
    """Return the stamp of a file that did not change while it was read and is not brand new."""
    if before is None or before != after:
        return None
    settled_before = (now - _SETTLED).timestamp() * 1e9
    return before if max(before.modified_ns, before.changed_ns) < settled_before else None


def checksum_of(source: Source) -> str:
    """Return a fast checksum; it finds accidents, not manipulation."""
    found = xxhash.xxh3_128()
    with open(source.path, "rb", buffering=0) as stream:  # noqa: PTH123
        while piece := stream.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def evidence_file(kept: Kept, source: Source) -> EvidenceFile:
    """Return the file as evidence names it."""
    return EvidenceFile(name=source.name, digest=kept.digest, byte_count=kept.byte_count)


def _read(path: Path, source: Source, key: str) -> Kept | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    seal, payload = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
    if hashlib.sha256(payload).digest() != seal:
        return None
    try:
        kept = msgspec.msgpack.decode(payload, type=Kept)
    except msgspec.MsgspecError:
        return None
    fits = (
        kept.key == key
        and kept.byte_count == source.byte_count
        and len(kept.ids) == 8 * kept.accepted
        and path.name.split("-")[1] == kept.digest.removeprefix(DIGEST_PREFIX)
    )
    return kept if fits else None


def _shorten_key(key: str) -> str:
    return key.removeprefix(DIGEST_PREFIX)[:16]
