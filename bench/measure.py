"""Running a command in a fresh process and seeing what it cost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Wall seconds, peak resident megabytes and processor seconds of one command."""

    seconds: float
    resident_mb: float
    processor_s: float


def run(arguments: list[str], *, repeats: int = 1, ok_codes: tuple[int, ...] = (0,)) -> Cost:
    """The best of some runs, each in a process of its own."""
    best: Cost | None = None
    for _ in range(repeats):
        started = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in ok_codes:
            raise SystemExit(f"{arguments} ended with {process.returncode}")
        cost = Cost(seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)
        best = cost if best is None or cost.seconds < best.seconds else best
    assert best is not None
    return best


def gatemark(*arguments: str) -> list[str]:
    """The command line of a gatemark verb in this interpreter."""
    return [sys.executable, "-m", "gatemark", *arguments]


@dataclass(frozen=True)
class Line:
    """One claim: what was measured, the number, and the bound it should keep."""

    claim: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def kept(self) -> bool | None:
        """Whether the bound holds; None when the line is only information."""
        if self.at_least is not None:
            return self.value >= self.at_least
        if self.at_most is not None:
            return self.value <= self.at_most
        return None

    def __str__(self) -> str:
        bound = ""
        if self.at_least is not None:
            bound = f">= {self.at_least:g}"
        elif self.at_most is not None:
            bound = f"<= {self.at_most:g}"
        word = {True: "kept", False: "MISSED", None: ""}[self.kept]
        return f"{self.claim:<72} {self.value:>10.2f} {self.unit:<4} {bound:>8}  {word}".rstrip()
