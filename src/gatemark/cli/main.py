"""The ``gatemark`` command: import one subcommand, and turn errors into exit codes."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from gatemark import __version__
from gatemark.cli.commands import SECTIONS, list_commands
from gatemark.cli.internal_error import internal_error_lines
from gatemark.cli.options import LazyGroup
from gatemark.core.errors import ExitCode, GatemarkError
from gatemark.core.text import visible_line
from gatemark.logs import FORMATS, LEVELS, LogFormat, LogLevel, configure_logs, stop_logs

VERBS: Final = {one.name: (one.module, one.summary) for one in list_commands().values()}
EPILOG = """\b
Exit codes: 0 pass or done, 1 failed or refused, 2 bad input, 3 inconclusive, 4 does not verify,
5 internal error.
Every option has an environment variable, such as GATEMARK_STORE."""


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    sections={
        section: [one.name for one in list_commands().values() if one.section == section]
        for section in SECTIONS
    },
    epilog=EPILOG,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "GATEMARK",
        "show_default": True,
    },
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="warning",
    help="Minimum level of log records on standard error.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    help="Format of log records: text, or one JSON object per line.",
)
@click.version_option(__version__, message="gatemark %(version)s")
def gatemark(log_level: LogLevel, log_format: LogFormat) -> None:
    """The promotion gate for AI changes: evidence in, a three-way verdict out, sealed."""
    configure_logs(log_level, log_format, sys.stderr)
    # Whoever runs a command inside a program may close or replace standard error afterwards.
    click.get_current_context().call_on_close(stop_logs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        return int(_run(arguments) or 0)
    except GatemarkError as error:
        _complain(*error.lines())
        return error.exit_code
    except click.ClickException as error:
        _complain(error.format_message())
        if isinstance(error, click.UsageError) and error.ctx is not None:
            _tell(f"Try '{error.ctx.command_path} --help'.")
        return ExitCode.BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        _complain("stopped")
        return 130
    except BrokenPipeError:
        _give_up_output()
        return 141
    except OSError as error:
        _complain(f"{error.filename or 'output'}: {error.strerror or error}")
        if error.filename is None:
            _give_up_output()
        return ExitCode.BAD_INPUT
    # The last resort: told, kept, and never a verdict. Code of packs and plugins may call sys.exit.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        _complain(*internal_error_lines(error))
        return ExitCode.INTERNAL


def _run(arguments: Sequence[str] | None) -> int | None:
    # Not by click's main: it ends the process with 1, as a failed gate does, on a closed pipe.
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        with gatemark.make_context("gatemark", words) as context:
            code: int | None = gatemark.invoke(context)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    return code


def _complain(*lines: str) -> None:
    for line in lines:
        _tell(f"gatemark: {visible_line(line)}")


def _tell(line: str) -> None:
    # The exit code says what happened; a full disk under standard error must not change it.
    with suppress(OSError):
        click.echo(line, err=True)


def _give_up_output() -> None:
    """Redirect closed standard output, so that the interpreter reports no error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Put nothing in place of standard streams that are closed: files would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


_PASSWORDS: Final = re.compile(rb"://[^/@:\0]*:([^\0]*)@|[?&](?:ssl)?password=([^&\0]*)")


def _hide_passwords() -> None:
    """Overwrite passwords of addresses in the command line that others see (Linux only).

    Any process of the machine can read it, also the code that a pack examines.
    """
    if not sys.platform.startswith("linux") or not any("://" in word for word in sys.argv):
        return
    import ctypes  # noqa: PLC0415 - few commands name an address

    # Fields 48 and 49 of proc(5); the second, a name, may have spaces and brackets.
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    start, end = map(int, fields.rpartition(")")[2].split()[45:47])
    words = ctypes.string_at(start, end - start)
    for found in _PASSWORDS.finditer(words):
        first, last = found.span(1 if found[1] is not None else 2)
        ctypes.memset(start + first, ord("x"), last - first)


def run() -> None:
    """The console script."""
    _open_closed_streams()
    _hide_passwords()
    # Records come by the hundred thousand and form no cycles: looking for some after every 700
    # objects, as the interpreter does by itself, took a quarter of the time of `compare`.
    gc.set_threshold(50_000, 20, 20)
    if "_GATEMARK_COMPLETE" in os.environ:
        gatemark.main(prog_name="gatemark")
    sys.exit(main())
