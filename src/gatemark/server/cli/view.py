"""``gatemark view``: show one result or log in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from gatemark.cli.options import ForeignLog, StrictCommand, foreign_log_options, store_option
from gatemark.cli.results import MAX_RESULT_BYTES, find_result, result_in_file
from gatemark.cli.screen import say
from gatemark.core.errors import BadInputError, UsageError, not_installed
from gatemark.core.result import RESULT_FORMAT
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import inspect_source

if TYPE_CHECKING:
    from gatemark.server.view_pages import Subject

NEEDED: Final = ("altair", "jinja2", "vl_convert")
FAMILY: Final = RESULT_FORMAT.partition("/")[0] + "/"


@click.command("view", cls=StrictCommand)
@click.argument("subject", metavar="RESULT|FILE")
@click.option("--arm", metavar="NAME|NUMBER", help="Experiment to read from a FILE with several.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=False,
    help="Port to listen on (default: a free one).",
)
@click.option("--no-open", is_flag=True, help="Print the link without opening a browser.")
@foreign_log_options
@store_option
def view_command(
    log: ForeignLog, *, subject: str, arm: str | None, port: int, no_open: bool, store: str
) -> int:
    """Show one result or log in a browser, without a store or an account.

    RESULT is an id in the store. FILE is a result or a comparison as JSON, a gatemark.sample/1
    file, or a log of a tool that 'gatemark import' reads. The seal of a result is checked first.

    Listens on this machine only, on a free port. The printed link works once, for the browser that
    opens it first. Ctrl-C stops it. Needs gatemark[report].

    \b
    Examples:
      gatemark view 3f2a9c01
      gatemark view result.json
      gatemark view promptfoo-output.json --arm candidate
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(not_installed("the page needs", ", ".join(missing), "report"))
    from gatemark.server.view_pages import ViewPages  # noqa: PLC0415 - an extra
    from gatemark.server.view_server import view  # noqa: PLC0415

    found = _find_subject(subject, store, log, arm)

    def tell(link: str) -> None:
        say(f"{subject}: {link}")
        say("The link works once, on this machine. Press Ctrl-C to stop.", err=True)
        if not no_open and _has_screen():
            webbrowser.open(link)

    return view(ViewPages(found, Path(subject).name), port, tell)


def _find_subject(subject: str, store: str, log: ForeignLog, arm: str | None) -> Subject:
    """Return what to show: an existing file of this name, or a result of the store."""
    path = Path(subject)
    if not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise UsageError(f"{subject}: no such file; a result is named by its id")
        return find_result(subject, store)
    if path.is_file() and log.tool == "auto" and not log.columns:
        known = _read_document(path)
        if known is not None:
            return known
    from gatemark.samples.browse import browse_log  # noqa: PLC0415 - only for logs
    from gatemark.samples.importer import find_tool_log  # noqa: PLC0415
    from gatemark.samples.read_samples import SampleRequest  # noqa: PLC0415

    request = SampleRequest(tool=log.tool, arm=arm, id_path=log.id_path, columns=dict(log.columns))
    source = inspect_source(str(find_tool_log(path)), name=subject)
    return browse_log(source, request, ReadingChoices())


class _Head(msgspec.Struct):
    """The members that distinguish Gatemark documents from logs."""

    schema: str = ""
    verdict: str | None = None
    base: object = None
    cand: object = None


def _read_document(path: Path) -> Subject | None:
    """Return a result or a comparison in a JSON file, or None for any other file."""
    try:
        if path.stat().st_size > MAX_RESULT_BYTES:
            return None
        data = path.read_bytes()
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if head.schema.startswith(FAMILY):
        return result_in_file(path)
    if head.verdict is None:
        return None
    if head.base is None or head.cand is None:
        raise BadInputError(
            f"{path}: a report without a seal; 'gatemark view ID' shows the sealed result, and "
            "'gatemark report ID -o result.json' writes a file that can be shown"
        )
    from gatemark.samples.views import ComparisonReport  # noqa: PLC0415 - only for comparisons

    try:
        return msgspec.json.decode(data, type=ComparisonReport)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _has_screen() -> bool:
    """Return whether a browser would open in a window instead of taking over the terminal."""
    if not sys.stdout.isatty():
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
