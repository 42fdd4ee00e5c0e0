"""Files and folders written whole or not at all: temporary name, fsync, rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from gatemark.core.errors import BadInputError


@contextmanager
def replacing(target: Path, *, sync_folder: bool = True) -> Iterator[BinaryIO]:
    """A stream whose content appears under ``target`` only if the block ends well.

    Who writes many files into one folder may leave the folder to ``sync_folders`` at the end.
    """
    try:
        descriptor, temporary = _beside(target)
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fchmod(stream.fileno(), 0o666 & ~_umask())
            os.fsync(stream.fileno())
        os.replace(temporary, target)  # noqa: PTH105 - many small files are written this way
        if sync_folder:
            _sync(target.parent)
    except OSError as error:
        _remove(temporary)
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    except BaseException:
        _remove(temporary)
        raise


def _beside(target: Path) -> tuple[int, str]:
    """A new file in the folder of another, which is made if it is not there."""
    folder, prefix = target.parent, f".{target.name}."
    try:
        return tempfile.mkstemp(dir=folder, prefix=prefix)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(dir=folder, prefix=prefix)


def _remove(temporary: str) -> None:
    Path(temporary).unlink(missing_ok=True)


def write_whole(target: Path, pieces: Iterable[bytes], *, sync_folder: bool = True) -> None:
    """Write a file in one act."""
    with replacing(target, sync_folder=sync_folder) as stream:
        for piece in pieces:
            stream.write(piece)


def write_together(files: Iterable[tuple[Path, bytes]]) -> None:
    """Write several files; none appears before all of them lie ready beside their places."""
    with ExitStack() as ready:
        for target, data in files:
            if target.is_dir():
                raise BadInputError(f"{target}: cannot be written: Is a directory")
            stream = ready.enter_context(replacing(target))
            try:
                stream.write(data)
                stream.flush()
            except OSError as error:
                message = f"{target}: cannot be written: {error.strerror or error}"
                raise BadInputError(message) from error


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which appears as ``target`` only if the block ends well.

    The target must not be there yet, or be an empty folder.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInputError(
            f"{target}: already exists and is not empty; name a new or empty folder"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    try:
        yield temporary
        for path in sorted(temporary.rglob("*")):
            _sync(path)
        temporary.chmod(0o777 & ~_umask())
        temporary.replace(target)
        _sync(target.parent)
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def secret_file(target: Path) -> Iterator[Path]:
    """A file to fill that only its owner can read; it is ``target`` only if the block ends well.

    For those who need a path and not a stream. A target that is there already is left alone.
    """
    _require_free(target)
    try:
        descriptor, name = _beside(target)
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        _require_free(target)
        temporary.replace(target)
        _sync(target.parent)
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _require_free(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise BadInputError(f"{target}: already exists and is never overwritten")


def write_secret(target: Path, data: bytes) -> None:
    """Write a new file that only its owner can read; one that is there is left alone."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise BadInputError(f"{target}: already exists and is never overwritten") from error
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        _sync(target.parent)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error


def sync_folders(folders: Iterable[Path]) -> None:
    """Make the names of files that were written into folders last."""
    for folder in sorted(set(folders)):
        _sync(folder)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
