"""Files and folders written whole or not at all: temporary name, fsync, rename."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from gatemark.core.errors import BadInputError

logger = logging.getLogger(__name__)


TEMPORARY: Final = ".gatemark-tmp"
"""How the names of temporary files and folders end; nobody else's are ever removed."""
STALE_S: Final = 86_400
"""After this time without a change, the command that made a temporary file is not running."""


@contextmanager
def _name_target_in_errors(target: Path) -> Iterator[None]:
    """Raise the errors of the operating system as bad input that names the target."""
    try:
        yield
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror or error}") from error


@contextmanager
def replacing(
    target: Path, *, sync_folder: bool = True, is_private: bool = False
) -> Iterator[BinaryIO]:
    """Yield a stream whose content appears under ``target`` only if the block succeeds.

    ``is_private`` makes a file that only its owner can read. Whoever writes many files into one
    folder may leave the folder to ``sync_folders`` at the end.
    """
    with _name_target_in_errors(target):
        descriptor, temporary = _make_temporary(target, is_private=is_private)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fchmod(stream.fileno(), 0o600 if is_private else 0o666 & ~_read_umask())
                os.fsync(stream.fileno())
            os.replace(temporary, target)  # noqa: PTH105 - many small files are written this way
            if sync_folder:
                _sync(target.parent)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _make_temporary(target: Path, *, is_private: bool = False) -> tuple[int, str]:
    """Make a temporary file alongside another; its folder is made if needed."""
    folder, prefix = target.parent, f".{target.name}."
    _sweep(folder)
    try:
        return tempfile.mkstemp(TEMPORARY, prefix, folder)
    except FileNotFoundError:
        if is_private:
            make_private_folder(folder)
        else:
            folder.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(TEMPORARY, prefix, folder)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone."""
    if not folder.is_dir():
        if not folder.parent.is_dir():
            make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@cache
def _sweep(folder: Path) -> None:
    """Remove what commands that were killed left in a folder; once per folder and process."""
    try:
        found = [one for one in os.scandir(folder) if one.name.endswith(TEMPORARY)]
        for one in found:
            if time.time() - one.stat(follow_symlinks=False).st_mtime < STALE_S:
                continue
            if one.is_dir(follow_symlinks=False):
                shutil.rmtree(one, ignore_errors=True)
            else:
                Path(one).unlink(missing_ok=True)
    except OSError as error:
        # Sweeping is a courtesy. Whether the folder can be written, the caller will see.
        logger.debug("not swept", extra={"reason": error.strerror})


def write_whole(
    target: Path, pieces: Iterable[bytes], *, sync_folder: bool = True, is_private: bool = False
) -> None:
    """Write a whole file, or none."""
    with replacing(target, sync_folder=sync_folder, is_private=is_private) as stream:
        for piece in pieces:
            stream.write(piece)


def write_together(files: Iterable[tuple[Path, bytes]]) -> None:
    """Write several files; none appears before all of them lie ready alongside their places."""
    with ExitStack() as ready:
        for target, data in files:
            if target.is_dir():
                raise BadInputError(f"{target}: cannot be written: Is a directory")
            stream = ready.enter_context(replacing(target))
            with _name_target_in_errors(target):
                stream.write(data)
                stream.flush()


@contextmanager
def replacing_folder(target: Path, *, is_private: bool = False) -> Iterator[Path]:
    """Yield a folder to fill, which appears as ``target`` only if the block succeeds.

    The target must not be there yet, or be an empty folder.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInputError(
            f"{target}: already exists and is not empty; name a new or empty folder"
        )
    with _name_target_in_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        temporary = Path(tempfile.mkdtemp(TEMPORARY, f".{target.name}.", target.parent))
        try:
            yield temporary
            for path in sorted(temporary.rglob("*")):
                _sync(path)
            temporary.chmod(0o700 if is_private else 0o777 & ~_read_umask())
            temporary.replace(target)
            _sync(target.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def secret_file(target: Path) -> Iterator[Path]:
    """A file to fill that only its owner can read; it is ``target`` only if the block succeeds.

    For those who need a path and not a stream. A target that is there already is left alone.
    """
    _require_free(target)
    with _name_target_in_errors(target):
        descriptor, name = _make_temporary(target)
        os.close(descriptor)
        temporary = Path(name)
        try:
            yield temporary
            _sync(temporary)
            _require_free(target)
            temporary.replace(target)
            _sync(target.parent)
        finally:
            temporary.unlink(missing_ok=True)


def _require_free(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise BadInputError(f"{target}: already exists and is never overwritten")


def write_secret(target: Path, data: bytes) -> None:
    """Write a new file that only its owner can read; one that is there is left alone."""
    with _name_target_in_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise BadInputError(f"{target}: already exists and is never overwritten") from error
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            _sync(target.parent)
        except OSError:
            target.unlink(missing_ok=True)
            raise


def sync_folders(folders: Iterable[Path]) -> None:
    """Make the names of files that were written into folders last."""
    for folder in sorted(set(folders)):
        _sync(folder)


def _read_umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
