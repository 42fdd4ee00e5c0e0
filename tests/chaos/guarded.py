"""One act in a process of its own, so that a hang, a crash and a flood of memory are seen."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import NamedTuple

GIGABYTE = 1 << 30
ALLOWED = {0, 1, 2, 3, 4}
"""The exit codes of the contract; 5 is a bug of ours."""
UNSEEN = set("\x1b\u202e\x00")
"""Characters that no terminal may get raw."""


class Ended(NamedTuple):
    """How an act ended."""

    code: int
    said: str
    peak: int
    """The most memory it held, in bytes."""

    @property
    def is_hung(self) -> bool:
        return self.code == -signal.SIGALRM

    @property
    def is_bug(self) -> bool:
        told = "Traceback (most recent call last)" in self.said or bool(UNSEEN & set(self.said))
        return not self.is_hung and (told or self.code not in ALLOWED)

    @property
    def is_over(self) -> bool:
        return self.peak > GIGABYTE


def guarded(act: Callable[[], int], seconds: int = 60) -> Ended:
    """Fork, act, and look at what is left. The clock of the system ends an act that hangs."""
    with tempfile.TemporaryFile() as said:
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            _act(act, seconds, said.fileno())
        _, status, used = os.wait4(process, 0)
        said.seek(0)
        text = said.read(1 << 20).decode(errors="replace")
    return Ended(os.waitstatus_to_exitcode(status), text, used.ru_maxrss * 1024)


def _act(act: Callable[[], int], seconds: int, said: int) -> None:
    code = 70
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        # The machine is kept whole: more than this is over a gigabyte anyway.
        most = 4 * GIGABYTE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        code = act()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 -- whatever it was, it is counted
        os.write(2, f"Traceback (most recent call last)\n{error!r}".encode())
    finally:
        os._exit(code)
