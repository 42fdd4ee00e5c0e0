"""The output of commands: JSON or text, report files, progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import click
import msgspec

from gatemark.cli.options import OptionGroup, json_option, output_option
from gatemark.core.canonical import json_text, plain
from gatemark.core.errors import UsageError, not_installed
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.core.progress import Progress
from gatemark.core.result import Result
from gatemark.core.text import visible, visible_json
from gatemark.report.outputs import check_extensions, check_formats, write_documents, write_reports

T = TypeVar("T")


def say(words: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text, with control and bidirectional characters escaped."""
    click.echo(visible(str(words)), err=err, nl=nl)


def put(data: str | bytes) -> None:
    """Print data unchanged to files and pipes; on a terminal, escape control characters."""
    if sys.stdout.isatty():
        data = visible(data if isinstance(data, str) else data.decode("utf-8", "surrogateescape"))
    elif isinstance(data, str):
        # click removes escape sequences from texts.
        data = data.encode("utf-8", "surrogateescape")
    click.echo(data, nl=False)


def print_json(document: object) -> None:
    """Print one JSON document; a result exactly as sealed, so that its id can be recomputed."""
    plain_document = plain(document) if isinstance(document, Result) else document
    click.echo(visible_json(json_text(plain_document)))


def show(
    found: T, text: Callable[[T], str | Iterable[str]], *, json: bool, is_styled: bool = False
) -> None:
    """Print a value as one JSON document, or as the text or lines that ``text`` returns.

    Styled text has colours; the function that styles it must escape it first.
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
    """Return whether standard output is a terminal and ``NO_COLOR`` is not set."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def byte_progress(title: str) -> AbstractContextManager[Progress | None]:
    """Show a bar of bytes on standard error if it is a terminal, else nothing."""
    return _show_bar(title, in_bytes=True)


def count_progress(title: str) -> AbstractContextManager[Progress | None]:
    """Show a bar of finished items on standard error if it is a terminal, else nothing."""
    return _show_bar(title, in_bytes=False)


@contextmanager
def logged_progress(title: str) -> Iterator[Progress]:
    """Show progress on standard error: a bar on a terminal, else a line per tenth for logs."""
    with count_progress(title) as progress:
        yield _print_tenths(title) if progress is None else progress


@contextmanager
def running_count(title: str) -> Iterator[Callable[[int], None] | None]:
    """Show a running count on standard error if it is a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    yield lambda done: click.echo(f"\r{done:,} {title}", nl=False, err=True)
    click.echo("\r\033[K", nl=False, err=True)


@contextmanager
def _show_bar(title: str, *, in_bytes: bool) -> Iterator[Progress | None]:
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


def _print_tenths(title: str) -> Progress:
    printed = 0

    def update(done: int, total: int) -> None:
        nonlocal printed
        tenth = done * 10 // total if total else 0
        if tenth > printed:
            printed = tenth
            say(f"{title}: {done} of {total}", err=True)

    return update


class Outputs(msgspec.Struct, frozen=True):
    """``-o`` and ``--json`` of a command that produces one document."""

    files: tuple[str, ...]
    json: bool

    def write(self, renderers: Mapping[str, Callable[[], bytes]]) -> None:
        """Write every file with the renderer of its extension."""
        write_documents(self.files, renderers)

    def show(
        self, found: T, text: Callable[[T], str | Iterable[str]], *, is_styled: bool = False
    ) -> None:
        """Print the document as JSON, or as text."""
        show(found, text, json=self.json, is_styled=is_styled)


def output_options(*extensions: str) -> OptionGroup[Outputs]:
    """Return ``-o`` for these extensions, and ``--json``; other extensions are refused."""

    def build(files: tuple[str, ...], json: bool) -> Outputs:
        check_extensions(files, extensions)
        return Outputs(files, json)

    return OptionGroup(
        build,
        files=click.option(
            "-o",
            "--output",
            multiple=True,
            metavar="FILE",
            help=f"File to write the document to ({', '.join(extensions)}). Repeatable.",
        ),
        json=json_option,
    )


@contextmanager
def optional_import(extra: str, needed_by: str = "a .html report needs") -> Iterator[None]:
    """Import modules of an optional extra; raise UsageError with the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "gatemark":
            raise
        raise UsageError(not_installed(needed_by, error.name, extra)) from error


class Reports(msgspec.Struct, frozen=True):
    """``-o`` and ``--json`` of a command that produces a result."""

    files: tuple[str, ...]
    json: bool

    def show(self, result: Result) -> int:
        """Write and print a result; return the exit code of its verdict."""
        self.write(result)
        return self.print(result)

    def write(self, result: Result, summary: Mapping[str, object] | None = None) -> None:
        """Write the report files; ``.json`` is the summary, if the exam has one."""
        if self.files:
            write_reports(result, self.files, summary=summary)

    def print(self, result: Result, summary: Mapping[str, object] | None = None) -> int:
        """Print a result; return the exit code of its verdict."""
        if self.json:
            print_json(result if summary is None else summary)
        else:
            from gatemark.report.terminal import verdict_table  # noqa: PLC0415 - brings rich

            click.echo(verdict_table(result, color=wants_color()))
        return EXIT_BY_OUTCOME[result.verdict]


def _make_reports(files: tuple[str, ...], json: bool) -> Reports:
    if files:
        check_formats(files)
    return Reports(files, json)


report_options = OptionGroup(_make_reports, files=output_option, json=json_option)
