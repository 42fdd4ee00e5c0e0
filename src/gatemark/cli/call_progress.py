"""The progress of calls on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gatemark.cli.screen import say
from gatemark.packs.answering import OnProgress
from gatemark.targets.outcomes import RunProgress

if TYPE_CHECKING:
    from rich.progress import TaskID


SECONDS_BETWEEN_LINES: Final = 5.0


@contextmanager
def show_call_progress() -> Iterator[OnProgress]:
    """Show the progress of each arm and suite on standard error."""
    if sys.stderr.isatty():
        with _show_bars() as update:
            yield update
        return
    lines = PlainLines(time.monotonic, lambda line: say(line, err=True))
    yield lines.update


class PlainLines:
    """Progress for logs: a line after a few seconds, then regularly, and one when an arm is done.

    A run that takes only seconds prints nothing.
    """

    def __init__(self, clock: Callable[[], float], write: Callable[[str], None]) -> None:
        self._clock = clock
        self._write = write
        self._began: dict[str, float] = {}
        self._last = clock()
        self._shown: set[str] = set()

    def update(self, name: str, progress: RunProgress) -> None:
        """Record progress, and print it when it is time."""
        now = self._clock()
        began = self._began.setdefault(name, now)
        is_over = progress.done >= progress.total
        if now - self._last < SECONDS_BETWEEN_LINES and not (is_over and name in self._shown):
            return
        self._last = now
        self._shown.add(name)
        self._write(f"{name}: {describe_progress(progress, now - began)}")


def describe_progress(progress: RunProgress, seconds: float) -> str:
    """Return totals, rate, counts and remaining time as text."""
    parts = [f"{progress.done} of {progress.total}"]
    called = progress.done - progress.cached
    rate = called / seconds if seconds > 0 else 0.0
    if rate:
        parts.append(f"{rate:.1f} per s" if rate < 100 else f"{rate:.0f} per s")
    parts.append(format_counts(progress))
    left = progress.total - progress.done
    if rate and left:
        parts.append(f"about {_format_duration(left / rate)} left")
    return ", ".join(parts)


def format_counts(progress: RunProgress) -> str:
    """Return how many calls passed, failed, errored and were repeated."""
    text = f"{progress.error} errors, {progress.retry} retries"
    if progress.passed is None:
        text = f"{progress.ok} ok, {text}"
    else:
        text = f"{progress.passed} pass, {progress.ok - progress.passed} fail, {text}"
    return f"{text}, {progress.cached} from the journal" if progress.cached else text


def _format_duration(seconds: float) -> str:
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def _show_bars() -> Iterator[OnProgress]:
    from rich.console import Console  # noqa: PLC0415 - only people on a terminal pay for it
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def update(name: str, progress: RunProgress) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=progress.total, counts="")
            bars.update(tasks[name], completed=progress.done, counts=format_counts(progress))

        yield update
