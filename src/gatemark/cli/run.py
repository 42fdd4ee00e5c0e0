"""``gatemark run``: a pack from question to sealed verdict."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click
import msgspec

from gatemark.cli.options import (
    engine_option,
    json_option,
    output_option,
    read_waivers,
    store_option,
)
from gatemark.cli.screen import print_json, wants_color
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.core.result import AssetRef, Result
from gatemark.lifecycle.model.nouns import parse_version_ref
from gatemark.packs.run import RunChoices, run_pack
from gatemark.report.outputs import check_formats, write_reports
from gatemark.report.terminal import verdict_table
from gatemark.workspace import Workspace

_SHORT_ID = re.compile(r"[0-9a-f]{8,64}")
"""The beginning of a result's id, as ``gatemark list`` prints it."""


@click.command("run")
@click.argument("pack")
@click.option("--candidate", metavar="SAMPLES", help="Judge recorded samples as the candidate.")
@click.option(
    "--baseline", metavar="SAMPLES|RESULT", help="Recorded samples, or the id of a sealed result."
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="How many calls may be under way at once.",
)
@engine_option
@click.option("--resume", is_flag=True, help="Go on where an interrupted run of this pack stopped.")
@click.option(
    "--cache",
    is_flag=True,
    help="Keep replies, and take them from earlier runs that asked the same target the same.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Answer only that many items per suite; such a run never passes.",
)
@click.option("--waivers", metavar="FILE", help="YAML list of waivers.")
@click.option(
    "--as",
    "as_version",
    metavar="ASSET@VERSION",
    help="Vouch that the candidate is this registered version; the result names it.",
)
@click.option("--against", metavar="ASSET@VERSION", help="Vouch that the baseline is this version.")
@click.option(
    "--actor", metavar="NAME", envvar="GATEMARK_ACTOR", help="Who runs; the login name by default."
)
@store_option
@json_option
@output_option
def run_command(**flags: Any) -> int:
    """Run a pack: answer, score, judge, seal.

    Both arms answer every item; errors stay in the count. Exit 0 pass, 1 fail, 2 bad input,
    3 could not be judged. Stopping with Ctrl-C seals nothing; --resume goes on.

    \b
    Examples:
      gatemark run packs/support-triage.yaml -j 8 -o report.html
      gatemark run packs/support-triage.yaml --resume
    """
    check_formats(flags["output"])
    workspace = Workspace(store=flags["store"], engine=flags["engine"], actor=flags["actor"])
    choices = RunChoices(
        jobs=flags["jobs"],
        resume=flags["resume"],
        cache=flags["cache"],
        limit=flags["limit"],
        candidate=None if flags["candidate"] is None else _recorded(flags["candidate"]),
        baseline=_baseline(flags["baseline"]),
        names=_names(workspace, candidate=flags["as_version"], baseline=flags["against"]),
    )
    # What a Python target prints must not get between a script and the JSON document.
    with _call_progress() as progress, redirect_stdout(sys.stderr):
        result = run_pack(
            workspace,
            flags["pack"],
            choices,
            waivers=read_waivers(flags["waivers"]),
            on_progress=progress,
            on_notice=lambda notice: click.echo(f"gatemark: {notice}", err=True),
        )
    return show_result(result, flags)


def _names(workspace: Workspace, **versions: str | None) -> dict[str, AssetRef]:
    """What the arms are known as, where the user vouches for it."""
    given = {arm: text for arm, text in versions.items() if text is not None}
    if not given:
        return {}
    from gatemark.lifecycle.assets import version_ref  # noqa: PLC0415 - only vouching needs the books

    workspace.existing_store()
    return {arm: version_ref(workspace, parse_version_ref(text)) for arm, text in given.items()}


def _baseline(text: str | None) -> dict[str, str] | str | None:
    if text is None or text.startswith("sha256:"):
        return text
    short_id = _SHORT_ID.fullmatch(text) is not None and not Path(text).exists()
    return text if short_id else _recorded(text)


def _recorded(path: str) -> dict[str, str]:
    """A target that answers from a file, which is looked up from here and not from the pack."""
    return {"recorded": str(Path(path).resolve())}


def show_result(result: Result, flags: dict[str, Any]) -> int:
    """Write and print a result as the flags ask; gives the exit code."""
    write_reports(result, flags["output"])
    if flags["json"]:
        print_json(msgspec.to_builtins(result))
    else:
        click.echo(verdict_table(result, color=wants_color()))
    return EXIT_BY_OUTCOME[result.verdict]


@contextmanager
def _call_progress() -> Iterator[Any]:
    """A line per suite and arm with counts and the time left, when a person is looking."""
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
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def update(name: str, progress: Any) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=progress.total, counts="")
            counts = f"{progress.error} errors, {progress.retry} retries"
            if progress.passed is None:
                counts = f"{progress.ok} ok, {counts}"
            else:
                failed = progress.ok - progress.passed
                counts = f"{progress.passed} pass, {failed} fail, {counts}"
            if progress.cached:
                counts += f", {progress.cached} from the journal"
            bars.update(tasks[name], completed=progress.done, counts=counts)

        yield update
