"""The files that a command writes, and what it prints when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import click
import msgspec

from gatemark.cli.options import OptionGroup, json_option, output_option
from gatemark.cli.screen import print_json, show, wants_color
from gatemark.core.errors import UsageError, not_installed
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.core.result import Result
from gatemark.report.outputs import check_extensions, check_formats, write_documents, write_reports
from gatemark.report.terminal import verdict_table

T = TypeVar("T")


class Outputs(msgspec.Struct, frozen=True):
    """``-o`` and ``--json`` of a command that makes one document."""

    files: tuple[str, ...]
    json: bool

    def write(self, renderers: Mapping[str, Callable[[], bytes]]) -> None:
        """Write every file by the renderer of its extension."""
        write_documents(self.files, renderers)

    def show(
        self, found: T, text: Callable[[T], str | Iterable[str]], *, is_styled: bool = False
    ) -> None:
        """Print the document as JSON, or as text."""
        show(found, text, json=self.json, is_styled=is_styled)


def output_options(*extensions: str) -> OptionGroup[Outputs]:
    """``-o`` for these extensions, and ``--json``; other extensions are refused at once."""

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
    """Import what an extra of the package brings, or say which extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "gatemark":
            raise
        raise UsageError(not_installed(needed_by, error.name, extra)) from error


class Reports(msgspec.Struct, frozen=True):
    """``-o`` and ``--json`` of a command that makes a result."""

    files: tuple[str, ...]
    json: bool

    def show(self, result: Result) -> int:
        """Write and print a result; returns the exit code of its verdict."""
        self.write(result)
        return self.print(result)

    def write(self, result: Result, summary: Mapping[str, object] | None = None) -> None:
        """Write the report files; ``.json`` is the summary of an exam that has one."""
        write_reports(result, self.files, summary=summary)

    def print(self, result: Result, summary: Mapping[str, object] | None = None) -> int:
        """Print a result; returns the exit code of its verdict."""
        if self.json:
            print_json(result if summary is None else summary)
        else:
            click.echo(verdict_table(result, color=wants_color()))
        return EXIT_BY_OUTCOME[result.verdict]


def _reports(files: tuple[str, ...], json: bool) -> Reports:
    check_formats(files)
    return Reports(files, json)


report_options = OptionGroup(_reports, files=output_option, json=json_option)
