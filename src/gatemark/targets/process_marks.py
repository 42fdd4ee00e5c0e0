"""Marks on the processes of a target, by which all that they started can be ended.

A grandchild can leave its process group by starting its own session. It still has the inherited
environment with a mark in it, by which it is found if there is ``/proc`` (Linux).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from typing import Final

MARK: Final = "GATEMARK_TARGET_PROCESS"
MOST_ROUNDS: Final = 100
MAX_ENVIRONMENT_BYTES: Final = 2**21


def make_mark() -> str:
    """Return a value of ``MARK`` that no other process has."""
    return secrets.token_hex(16)


def end_marked(mark: str) -> None:
    """End every process that inherited a mark, including those that start meanwhile."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(MOST_ROUNDS):
        found = [pid for pid in _list_processes() if wanted in _read_environment(pid).split(b"\0")]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _list_processes() -> list[int]:
    try:
        with os.scandir("/proc") as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return []


def _read_environment(pid: int) -> bytes:
    """Return the inherited environment of a process; empty if it ended or is not ours."""
    try:
        opened = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(opened, MAX_ENVIRONMENT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(opened)
