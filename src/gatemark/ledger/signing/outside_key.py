"""Secret keys in files outside the database: a copy of the database does not reveal them."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from gatemark.core.errors import UsageError

KEY_BYTES: Final = 32


def ensure_outside_key(path: Path) -> bytes:
    """Return the key in a file; create a missing file, for its owner only."""
    try:
        return read_outside_key(path)
    except FileNotFoundError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = secrets.token_hex(KEY_BYTES)
    # Written completely under another name first: if two servers start together, one wins.
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text + "\n")
    try:
        os.link(part, path)
    except FileExistsError:
        return read_outside_key(path)
    finally:
        part.unlink()
    return read_outside_key(path)


def read_outside_key(path: Path) -> bytes:
    """Return the key in a file; raise FileNotFoundError if there is none."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(f"{path}: expected a regular file")
    try:
        with path.open(encoding="ascii") as stream:
            key = bytes.fromhex(stream.read(4 * KEY_BYTES).strip())
    except ValueError as error:
        raise UsageError(
            f"{path}: expected {2 * KEY_BYTES} hex digits, as the server writes them"
        ) from error
    if len(key) != KEY_BYTES:
        raise UsageError(f"{path}: expected {2 * KEY_BYTES} hex digits, got {2 * len(key)}")
    return key
