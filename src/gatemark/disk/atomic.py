"""Files written whole or not at all: temporary file, fsync, rename."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gatemark.core.errors import BadInputError


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A stream whose content appears under ``target`` only if the block ends well."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def write_whole(target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file in one act."""
    with replacing(target) as stream:
        for piece in pieces:
            stream.write(piece)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
