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
def replacing(target: Path, *, sync_folder: bool = True) -> Iterator[BinaryIO]:
    """A stream whose content appears under ``target`` only if the block ends well.

    Who writes many files into one folder may leave the folder to ``sync_folders`` at the end.
    """
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
        if sync_folder:
            _sync_folder(target.parent)
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def write_whole(target: Path, pieces: Iterable[bytes], *, sync_folder: bool = True) -> None:
    """Write a file in one act."""
    with replacing(target, sync_folder=sync_folder) as stream:
        for piece in pieces:
            stream.write(piece)


def sync_folders(folders: Iterable[Path]) -> None:
    """Make the names of files that were written into folders last."""
    for folder in sorted(set(folders)):
        _sync_folder(folder)


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
