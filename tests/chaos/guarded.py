"""Acts in a process of their own, so that a hang, a crash and a flood of memory are seen."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

GIGABYTE = 1 << 30
ALLOWED = {0, 1, 2, 3, 4}
"""The exit codes of the contract; 5 is a bug of ours."""
MOST_SAID = 1 << 20
WAITS = 5
SILENT = 71
"""An act that left the process without a word, which no command may do."""
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
        return self.code in (-signal.SIGALRM, -signal.SIGXCPU)

    @property
    def is_bug(self) -> bool:
        told = "Traceback (most recent call last)" in self.said or bool(UNSEEN & set(self.said))
        return not self.is_hung and (told or self.code not in ALLOWED)

    @property
    def is_over(self) -> bool:
        return self.peak > GIGABYTE


def guarded(act: Callable[[], int], seconds: int = 60) -> Ended:
    """Fork, act, and look at what is left. The clock of the system ends an act that hangs."""
    (ended,) = guarded_each([act], seconds)
    return ended


def guarded_each(acts: Sequence[Callable[[], int]], seconds: int = 60) -> Iterator[Ended]:
    """Act one after the other in a fork, which is renewed after each act that broke it.

    A fork costs more than most acts do, so a long run shares one between some of them.
    """
    at = 0
    while at < len(acts):
        ended = list(_some(acts[at:], seconds))
        at += len(ended)
        yield from ended


def _some(acts: Sequence[Callable[[], int]], seconds: int) -> Iterator[Ended]:
    """The ends of the first acts, up to the first one that broke the process."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as said:
        process = os.fork()
        if process == 0:
            os.close(reading)
            _act_each(acts, seconds, said.fileno(), writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as reports:
            ended = [Ended(*json.loads(report)) for report in reports]
        _, status, used = os.wait4(process, 0)
        yield from ended
        code = os.waitstatus_to_exitcode(status)
        if code or not ended:
            said.seek(0)
            text = said.read(MOST_SAID).decode(errors="replace")
            yield Ended(code or SILENT, text, used.ru_maxrss * 1024)


def _set_clocks(seconds: int) -> None:
    """So much processor time for an act; waiting may take longer, as the machine may be busy."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = math.ceil(used.ru_utime + used.ru_stime)
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds, resource.RLIM_INFINITY))
    signal.alarm(WAITS * seconds)


def _act_each(acts: Sequence[Callable[[], int]], seconds: int, said: int, report: int) -> None:
    """Act in the fork, and report each end; what cannot report ends the fork with its code."""
    code = 70
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for ours, theirs in ((nothing, 0), (said, 1), (said, 2)):
            os.dup2(ours, theirs)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        # The machine is kept whole: more than this is over a gigabyte anyway. What the process has
        # mapped already comes on top; libraries of other tests may map tens of gigabytes.
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + 4 * GIGABYTE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        for act in acts:
            _set_clocks(seconds)
            code = act()
            sys.stdout.flush()
            sys.stderr.flush()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            ended = Ended(code, os.pread(said, MOST_SAID, 0).decode(errors="replace"), peak)
            told = ended if ended.is_bug or len(acts) == 1 else ended._replace(said="")
            os.write(report, (json.dumps(told) + "\n").encode())
            os.ftruncate(said, 0)
            os.lseek(said, 0, os.SEEK_SET)
            if ended.is_over:
                break
        code = 0
    except BaseException as error:  # noqa: BLE001 -- whatever it was, it is counted
        code = 70
        os.write(2, f"Traceback (most recent call last)\n{error!r}".encode())
    finally:
        os._exit(code)
