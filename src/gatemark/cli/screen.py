"""What a person sees: progress on a terminal, plain words elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from gatemark.core.canonical import json_text


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    click.echo(json_text(document))


def wants_color() -> bool:
    """Whether standard output is a terminal whose owner did not ask for plain text."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


@contextmanager
def byte_progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on standard error when a person is looking, else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only people on a terminal pay for it
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def running_count(title: str) -> Iterator[Callable[[int], None] | None]:
    """A running count on standard error when a person is looking, else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    yield lambda done: click.echo(f"\r{done:,} {title}", nl=False, err=True)
    click.echo("\r\033[K", nl=False, err=True)


@contextmanager
def told_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Progress of slow work on standard error: a bar for people, a line per tenth for logs."""
    with count_progress(title) as progress:
        yield _tenths(title) if progress is None else progress


@contextmanager
def count_progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar of things done on standard error when a person is looking, else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
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
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _tenths(title: str) -> Callable[[int, int], None]:
    told = 0

    def tell(done: int, total: int) -> None:
        nonlocal told
        tenth = done * 10 // total if total else 0
        if tenth > told:
            told = tenth
            click.echo(f"{title}: {done} of {total}", err=True)

    return tell
