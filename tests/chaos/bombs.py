"""Files that are small to write and large, endless or silent to read."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _blank(path: Path) -> None:
    path.write_bytes(b"\n" * (24 << 20))


def _arrays(path: Path) -> None:
    path.write_bytes(b"[" + b"[]," * (11 << 20) + b"[]]")


def _packed(path: Path) -> None:
    path.write_bytes(gzip.compress(b"[" + b"[]," * (80 << 20) + b"[]]", compresslevel=1))


def _keys(path: Path) -> None:
    path.write_text("".join(f"k{n}: {n}\n" for n in range(300_000)))


def _deep(path: Path) -> None:
    path.write_bytes(b"[" * 200_000 + b"]" * 200_000)


def _aliases(path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, 12)]
    path.write_text("\n".join(rows))


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


HOLE = "a hole of a terabyte"
BOMBS: dict[str, Callable[[Path], None]] = {
    "a pipe that nobody writes": _pipe,
    "/dev/zero": _endless,
    "blank lines": _blank,
    "millions of arrays": _arrays,
    "a gzip of arrays": _packed,
    "YAML with 300,000 keys": _keys,
    "deep nesting": _deep,
    "YAML aliases": _aliases,
    HOLE: _hole,
}
NO_CONTENT = frozenset({"a pipe that nobody writes", "/dev/zero", HOLE})
"""Bombs that no command may take for a file of its own."""
