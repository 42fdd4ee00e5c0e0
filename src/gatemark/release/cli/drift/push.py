"""``gatemark drift push`` and ``derive``: points of watched metrics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click

from gatemark.cli.options import (
    StrictCommand,
    actor_option,
    json_option,
    max_errors_option,
    now_option,
    store_option,
)
from gatemark.cli.screen import byte_progress, show
from gatemark.core.errors import UsageError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.release.drift.derive import DEFAULT_WINDOW, Derived, DeriveRequest, derive_points
from gatemark.release.drift.point import Pushed
from gatemark.release.drift.push import push_points
from gatemark.workspace import Workspace


@click.command("push", cls=StrictCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--duplicate-key-check/--no-duplicate-key-check",
    default=True,
    help="Refuse JSON objects that repeat a key.",
)
@now_option
@max_errors_option
@actor_option
@store_option
@json_option
def push_command(
    *,
    files: tuple[str, ...],
    duplicate_key_check: bool,
    now: datetime | None,
    max_errors: int,
    actor: str | None,
    store: str,
    json: bool,
) -> None:
    """Store points of watched metrics, one per window.

    FILE holds gatemark.point/1: lines of asset, metric, start, end and a value with n, or additive
    counts (sum and sum_squares, k, histogram, calibration, categories); plain, gzip or zstd, '-' is
    standard input. A repeated window is stored once. Different content for a stored window is a
    correction, and the replaced content stays on record. If one line is wrong, nothing is stored.

    \b
    Examples:
      gatemark drift push points.jsonl
      gatemark drift push - < points.jsonl
    """
    moment = now or Workspace().clock()
    workspace = Workspace(store=store, actor=actor, clock=lambda: moment)
    choices = ReadingChoices(check_duplicate_keys=duplicate_key_check, max_errors=max_errors)
    with byte_progress("pushing") as progress:
        pushed = push_points(workspace, files, choices, now=moment, on_progress=progress)
    show(pushed, _format_counts, json=json)


@click.command("derive", cls=StrictCommand)
@click.option("--results", is_flag=True, help="Count the sealed results of the store.")
@click.option(
    "--run-log", "run_logs", multiple=True, metavar="FILE", help="Run log to count. Repeatable."
)
@click.option(
    "--decisions",
    multiple=True,
    metavar="FILE",
    help="File of advisory decisions to count. Repeatable.",
)
@click.option(
    "--points",
    multiple=True,
    metavar="NAME=FILE",
    help="File to count, by the name of its point source, such as one of a plugin. Repeatable.",
)
@click.option("--asset", help="Asset that the records are about.")
@click.option("--window", default=DEFAULT_WINDOW, help="Length of the windows (1h, 1d).")
@now_option
@max_errors_option
@store_option
@json_option
def derive_command(
    *,
    results: bool,
    run_logs: tuple[str, ...],
    decisions: tuple[str, ...],
    points: tuple[str, ...],
    asset: str | None,
    window: str,
    now: datetime | None,
    max_errors: int,
    store: str,
    json: bool,
) -> None:
    """Push points counted from results, run logs, advisory decisions and files of plugins.

    Results give golden_accuracy and calibration_ece of their candidate, one point for each time
    they were reached; for a registered asset, only results about the version that was live then.
    Run logs give verifier_block_ratio (buffer decisions that hold back) and rejection_ratio
    (summaries that fail their schema), for the named asset or the variant. Decisions give
    confidence_kl, calibration_ece and tool_error_classes, for the named asset or the service.
    Windows that are not over wait. Without any source, results are read.

    \b
    Examples:
      gatemark drift derive
      gatemark drift derive --run-log runs/V0.jsonl.gz --asset summariser
      gatemark drift derive --decisions decisions.jsonl
      gatemark drift derive --points deliveries=trips.jsonl
    """
    workspace = Workspace(store=store)
    sources = (
        *(("runlog", path) for path in run_logs),
        *(("advisory", path) for path in decisions),
        *map(_parse_named_file, points),
    )
    request = DeriveRequest(
        results=results or not sources,
        files=sources,
        asset=asset,
        window=window,
    )
    choices = ReadingChoices(max_errors=max_errors)
    derived = derive_points(workspace, request, choices, now=now or workspace.clock())
    show(derived, _format_derived, json=json)


def _parse_named_file(given: str) -> tuple[str, str]:
    name, equals, path = given.partition("=")
    if not (name and equals and path):
        raise UsageError(f"--points takes NAME=FILE, got {given!r}")
    return name, path


def _format_counts(pushed: Pushed) -> str:
    return (
        f"{pushed.received} points: {pushed.added} new, {pushed.repeated} known, "
        f"{pushed.corrected} corrections"
    )


def _format_derived(derived: Derived) -> Iterator[str]:
    yield f"{_format_counts(derived.pushed)}; {derived.open_windows} windows are still open"
    if derived.not_served:
        yield f"left out: {derived.not_served} results about versions that were not live then"
    for why in derived.uncitable:
        yield f"left out, since nothing may rest on it: {why}"
