"""A disk of a few megabytes that can be filled, where the system lets us mount one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = 4 << 20


@contextmanager
def tiny_disk(place: Path) -> Iterator[Path | None]:
    """Yield a folder on a disk of its own; None where nothing can be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    try:
        made = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        made = False
    if not made:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path, leave: int = 0) -> None:
    """Write until nothing more goes in; then give some bytes back."""
    descriptor = os.open(disk / "filler", os.O_CREAT | os.O_WRONLY)
    size = 0
    try:
        while True:
            size += os.write(descriptor, bytes(4096))
    except OSError:
        os.ftruncate(descriptor, max(0, size - leave))
    finally:
        os.close(descriptor)


def make_read_only(disk: Path) -> None:
    """Mount the disk again so that nobody can write it."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
