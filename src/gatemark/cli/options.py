"""Options that several verbs share, spelled once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from gatemark.core.policy import Waiver

F = TypeVar("F", bound=Callable[..., Any])


MAX_WAIVER_BYTES: Final = 1024 * 1024
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def read_waivers(path: str | None) -> tuple[Waiver, ...]:
    """The waivers of ``--waivers``; none when no file is named."""
    # Other verbs that share options do without YAML.
    from gatemark.evidence.settings_file import read_settings  # noqa: PLC0415
    from gatemark.gate.waivers import waivers_from  # noqa: PLC0415

    return waivers_from(read_settings(path, MAX_WAIVER_BYTES), path) if path else ()


class FiniteRange(click.FloatRange):
    """A number within bounds, in plain digits; NaN, which no bound keeps out, is refused too.

    ``hint`` follows what is said about a number that does not fit.
    """

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        hint: str = "",
        min_open: bool = False,
        max_open: bool = False,
    ) -> None:
        super().__init__(low, high, min_open=min_open, max_open=max_open)
        self._hint = hint

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, str) and not _DECIMAL.fullmatch(value.strip()):
            self.fail(f"{value!r} is not a finite number{self._hint}.", param, ctx)
        number = float(value)
        if (
            number == 0
            and isinstance(value, str)
            and re.search("[1-9]", value.lower().partition("e")[0])
        ):
            self.fail(f"{value!r} is too small to be told from 0.", param, ctx)
        try:
            number = float(super().convert(number, param, ctx))
        except click.BadParameter as error:
            self.fail(error.message.removesuffix(".") + f"{self._hint}.", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


ALPHA = FiniteRange(0, 0.5, min_open=True, max_open=True)


def store_option(function: F) -> F:
    """``--store``: where sealed results live."""
    return click.option(
        "--store",
        envvar="GATEMARK_STORE",
        default=".gatemark",
        show_default=True,
        metavar="PATH|URL",
        help="Folder that keeps sealed results and the ledger, or postgresql://… for a team.",
    )(function)


def json_option(function: F) -> F:
    """``--json``: one JSON document on standard output."""
    return click.option("--json", is_flag=True, help="Print exactly one JSON document.")(function)


def output_option(function: F) -> F:
    """``-o``: files to write, format by extension."""
    return click.option(
        "-o",
        "--output",
        multiple=True,
        metavar="FILE",
        help="Also write a report; the extension picks the format "
        "(.json .md .html .junit.xml .jsonl). Repeatable.",
    )(function)


def document_option(function: F) -> F:
    """``-o`` for commands whose only document is JSON."""
    return click.option(
        "-o", "--output", multiple=True, metavar="FILE", help="Also write the document (.json)."
    )(function)


def jobs_option(function: F) -> F:
    """``-j``: how many processes."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1, 256),
        default=None,
        help="Processes to read large plain files with; as many as there are cores when left out.",
    )(function)


def engine_option(function: F) -> F:
    """``--engine``: where evidence is folded."""
    return click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Fold evidence here, or on a Ray cluster (RAY_ADDRESS, else one of its own).",
    )(function)


def reading_options(function: F) -> F:
    """How strictly to read evidence."""
    decorators = [
        click.option(
            "--on-bad-line",
            type=click.Choice(["error", "exclude"]),
            default="error",
            show_default=True,
            help="Refuse the input, or count and show what was left out.",
        ),
        click.option(
            "--on-duplicate",
            type=click.Choice(["error", "first", "last"]),
            default="error",
            show_default=True,
            help="What to do with an id that comes twice.",
        ),
        click.option(
            "--duplicate-key-check/--no-duplicate-key-check",
            default=True,
            show_default=True,
            help="Refuse JSON objects that repeat a key.",
        ),
        click.option(
            "--max-errors",
            type=click.IntRange(1),
            default=20,
            show_default=True,
            help="How many problems to list.",
        ),
        click.option(
            "--max-line-bytes",
            type=click.IntRange(1),
            default=4 * 1024 * 1024,
            show_default=True,
            help="Refuse longer lines.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def from_option(function: F) -> F:
    """``--from``: which tool wrote the logs."""
    return click.option(
        "--from",
        metavar="FORMAT",
        default="auto",
        show_default=True,
        help="Which tool wrote the log: auto, inspect, lm-eval, promptfoo, deepeval, mlflow, "
        "pydantic-evals, otlp or langfuse.",
    )(function)


def id_option(function: F) -> F:
    """``--id``: where a foreign row keeps its id."""
    return click.option(
        "--id",
        metavar="PATH",
        help="Dotted path to the id inside a row of another tool's log, such as doc.id.",
    )(function)


def max_errors_option(function: F) -> F:
    """``--max-errors``: how many problems to list."""
    return click.option(
        "--max-errors",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        help="How many problems to list.",
    )(function)


def busy_counter_option(function: F) -> F:
    """``--busy-counter``: where the NPU counts its busy time."""
    return click.option(
        "--busy-counter",
        metavar="PATH",
        default="/sys/class/accel/accel0/device/npu_busy_time_us",
        show_default=True,
        help="File in which the NPU counts its busy time in microseconds.",
    )(function)
