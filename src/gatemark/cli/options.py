"""Options that several commands share, and groups of options that arrive as one typed value."""

from __future__ import annotations

import functools
import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar

import click
import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.request_fields import parse_moment

if TYPE_CHECKING:
    from gatemark.core.policy import Waiver


Verbs = Mapping[str, tuple[str, str]]
"""The module of each command, seen from ``gatemark.cli``, and the first line of its help."""


class LazyGroup(click.Group):
    """A group whose commands are listed in a table; ``verb`` is defined as ``verb_command``."""

    def __init__(
        self,
        *arguments: Any,
        verbs: Verbs,
        sections: Mapping[str, Sequence[str]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.verbs = verbs
        self.sections = dict(sections or {})
        listed = {verb for section in self.sections.values() for verb in section}
        # List commands that belong to no section, too.
        if others := [verb for verb in verbs if verb not in listed]:
            self.sections["Other commands" if listed else "Commands"] = others

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.verbs:
            return None
        module = importlib.import_module(self.verbs[cmd_name][0])
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)  # noqa: S101 - a test loads every verb
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(verb) for verb in self.verbs)
        for title, names in self.sections.items():
            if not names:
                continue
            with formatter.section(title):
                rows = [(name.ljust(width), self.verbs[name][1]) for name in names]
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.verbs and not name.startswith("-"):
            close = get_close_matches(name, self.verbs, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


REPLACEABLE: Final = ("--store", "--out", "--jobs")
"""Do not say what is judged, or how: scripts append another one, and the last counts."""


class StrictCommand(click.Command):
    """A command that refuses an option given twice, unless the option may be repeated.

    Click takes the last one: the evidence that the others name would be left out without a word.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option in given:
            if not isinstance(option, click.Option) or option.multiple or option.count:
                continue
            name = max(option.opts, key=len)
            if name not in REPLACEABLE and not option.is_flag and given.count(option) > 1:
                raise click.UsageError(f"{name} was given more than once; give it once.", ctx)
        return super().parse_args(ctx, args)


class StrictGroup(click.Group):
    """A group of such commands."""

    command_class = StrictCommand


F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G")
P = ParamSpec("P")
R = TypeVar("R")


class OptionDecorator(Protocol):
    """The type of ``click.option(…)``: it adds one option to a function."""

    def __call__(self, function: F, /) -> F:
        """Return the function, with the option added."""


class OptionGroup(Generic[G]):
    """Options that a command takes together, as one positional parameter.

    Each keyword names a parameter of ``build``; its value is the decorator that adds the option.
    The option keeps its own name and environment variable. With several groups, the one next to the
    function comes first.
    """

    def __init__(self, build: Callable[..., G], **options: OptionDecorator) -> None:
        self.build = build
        self.fields: dict[str, click.Parameter] = {}
        self._options = options
        for field, option in options.items():
            (self.fields[field],) = click.command()(option(lambda: None)).params

    def __call__(self, command: Callable[Concatenate[G, P], R]) -> Callable[P, R]:
        @functools.wraps(command)
        def collect(*arguments: P.args, **given: P.kwargs) -> R:
            fields = {field: given.pop(str(option.name)) for field, option in self.fields.items()}
            return command(self.build(**fields), *arguments, **given)

        decorated: Callable[P, R] = collect
        for option in reversed(self._options.values()):
            decorated = option(decorated)
        return decorated


MAX_WAIVER_BYTES: Final = 1024 * 1024
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def read_waivers(path: str | None) -> tuple[Waiver, ...]:
    """Return the waivers of ``--waivers``; none if no file is named."""
    if not path:
        return ()
    # Imported late: without this option, nothing needs YAML.
    from gatemark.evidence.settings_file import read_settings, waivers_from  # noqa: PLC0415

    return waivers_from(read_settings(path, MAX_WAIVER_BYTES), path)


class FiniteRange(click.FloatRange):
    """A finite number within bounds, in plain digits; NaN is refused.

    ``hint`` is added to the message about a number that does not fit.
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
            self.fail(f"{value!r} is too small: it rounds to 0.", param, ctx)
        try:
            number = float(super().convert(number, param, ctx))
        except click.BadParameter as error:
            self.fail(error.message.removesuffix(".") + f"{self._hint}.", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class MomentParam(click.ParamType[datetime]):
    """A point in time in UTC, such as 2026-03-01T00:00:00Z."""

    name = "moment"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_moment(value)
        except InvalidValueError as error:
            self.fail(str(error), param, ctx)


ALPHA: Final = FiniteRange(0, 0.5, min_open=True, max_open=True)
MOMENT: Final = MomentParam()

now_option = click.option(
    "--now",
    type=MOMENT,
    metavar="T",
    help="Time to act at, in ISO 8601 with a time zone (default: the current time).",
)
actor_option = click.option(
    "--actor",
    metavar="NAME",
    envvar="GATEMARK_ACTOR",
    help="Name of the person who acts (default: the login name). Recorded, but not verified.",
)
store_option = click.option(
    "--store",
    envvar="GATEMARK_STORE",
    default=".gatemark",
    metavar="PATH|URL",
    help="Folder of sealed results and the ledger, or postgresql://… for a team.",
)
json_option = click.option("--json", is_flag=True, help="Print one JSON document.")
output_option = click.option(
    "-o",
    "--output",
    multiple=True,
    metavar="FILE",
    help="File to write a report to; the extension picks the format "
    "(.json .md .html .junit.xml .jsonl). Repeatable.",
)
document_option = click.option(
    "-o",
    "--output",
    multiple=True,
    metavar="FILE",
    help="File to write the document to (.json). Repeatable.",
)
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    help="Number of processes that read large plain files (default: the number of cores).",
)
engine_option = click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    help="Where to fold evidence: on this machine, or on a Ray cluster (RAY_ADDRESS, else a "
    "local one).",
)
max_errors_option = click.option(
    "--max-errors", type=click.IntRange(1), default=20, help="Maximum number of problems to list."
)
busy_counter_option = click.option(
    "--busy-counter",
    metavar="PATH",
    default="/sys/class/accel/accel0/device/npu_busy_time_us",
    help="File with the busy time of the NPU, in microseconds.",
)


def reading_options(function: F) -> F:
    """Add the options that say how strictly to read evidence."""
    decorators = [
        click.option(
            "--on-bad-line",
            type=click.Choice(["error", "exclude"]),
            default="error",
            help="Whether to refuse the input, or to count and show excluded lines.",
        ),
        click.option(
            "--on-duplicate",
            type=click.Choice(["error", "first", "last"]),
            default="error",
            help="Handling of an id that occurs twice.",
        ),
        click.option(
            "--duplicate-key-check/--no-duplicate-key-check",
            default=True,
            help="Refuse JSON objects that repeat a key.",
        ),
        max_errors_option,
        click.option(
            "--max-line-bytes",
            type=click.IntRange(1),
            default=4 * 1024 * 1024,
            help="Maximum length of a line in bytes.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


class ForeignLog(msgspec.Struct, frozen=True):
    """How to read another tool's log: which tool wrote it, and where a row has its fields."""

    tool: str
    id_path: str | None
    columns: dict[str, str]


def _parse_foreign_log(tool: str, id_path: str | None, maps: tuple[str, ...]) -> ForeignLog:
    if not maps:
        return ForeignLog(tool, id_path, {})
    from gatemark.samples.importers.columns import parse_map  # noqa: PLC0415 - few need it

    return ForeignLog(tool, id_path, parse_map(maps))


foreign_log_options = OptionGroup(
    _parse_foreign_log,
    tool=click.option(
        "--from",
        metavar="FORMAT",
        default="auto",
        help="Tool that wrote the log: auto, inspect, lm-eval, promptfoo, deepeval, mlflow, "
        "pydantic-evals, openai-evals, helm, ragas, otlp, langfuse or langfuse-dataset; csv, tsv "
        "or jsonl for a table with --map.",
    ),
    id_path=click.option(
        "--id",
        "--id-path",
        metavar="PATH",
        help="Dotted path to the id inside a row of another tool's log, such as doc.id.",
    ),
    maps=click.option(
        "--map",
        multiple=True,
        metavar="FIELD=COLUMN,...",
        help="Columns of a table that hold the fields of a sample: id, epoch, input, target, "
        "output, score, score.NAME, confidence, error, latency_ms, cluster, tag.NAME. Repeatable.",
    ),
)
