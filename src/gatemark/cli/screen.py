"""What a command prints: JSON or text, and progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from gatemark.core.canonical import json_text
from gatemark.core.progress import Progress
from gatemark.core.text import visible, visible_json

T = TypeVar("T")


def say(words: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print words. Controls and bidi marks, of file names for example, are spelled out."""
    click.echo(visible(str(words)), err=err, nl=nl)


def put(data: str | bytes) -> None:
    """Print data as it is, for files and pipes; what drives a terminal is spelled out on one."""
    if sys.stdout.isatty():
        data = visible(data if isinstance(data, str) else data.decode("utf-8", "surrogateescape"))
    click.echo(data, nl=False)


def print_json(document: object) -> None:
    """Print one JSON document."""
    click.echo(visible_json(json_text(document)))


def show(
    found: T, text: Callable[[T], str | Iterable[str]], *, json: bool, is_styled: bool = False
) -> None:
    """Print a value as one JSON document, or as the text or lines that ``text`` makes of it.

    Styled text has colours; whoever styles it cleans the words first.
    """
    if json:
        print_json(found)
        return
    words = text(found)
    put_words = click.echo if is_styled else say
    if isinstance(words, str):
        put_words(words, nl=not words.endswith("\n"))
    else:
        for line in words:
            put_words(line)


def wants_color() -> bool:
    """Tell whether standard output is a terminal and ``NO_COLOR`` is not set."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


@contextmanager
def byte_progress(title: str) -> Iterator[Progress | None]:
    """Show a bar of bytes on standard error if it is a terminal, else nothing."""
    with _bar(title, in_bytes=True) as progress:
        yield progress


@contextmanager
def count_progress(title: str) -> Iterator[Progress | None]:
    """Show a bar of finished items on standard error if it is a terminal, else nothing."""
    with _bar(title, in_bytes=False) as progress:
        yield progress


@contextmanager
def logged_progress(title: str) -> Iterator[Progress]:
    """Show progress on standard error: a bar on a terminal, else a line per tenth for logs."""
    with count_progress(title) as progress:
        yield _tenths(title) if progress is None else progress


@contextmanager
def running_count(title: str) -> Iterator[Callable[[int], None] | None]:
    """Show a running count on standard error if it is a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    yield lambda done: click.echo(f"\r{done:,} {title}", nl=False, err=True)
    click.echo("\r\033[K", nl=False, err=True)


@contextmanager
def _bar(title: str, *, in_bytes: bool) -> Iterator[Progress | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars  # noqa: PLC0415 - only people on a terminal pay for it
    from rich.console import Console  # noqa: PLC0415

    counts: tuple[bars.ProgressColumn, ...] = (bars.MofNCompleteColumn(),)
    if in_bytes:
        counts = (bars.DownloadColumn(), bars.TransferSpeedColumn())
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        *counts,
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _tenths(title: str) -> Progress:
    printed = 0

    def update(done: int, total: int) -> None:
        nonlocal printed
        tenth = done * 10 // total if total else 0
        if tenth > printed:
            printed = tenth
            say(f"{title}: {done} of {total}", err=True)

    return update
