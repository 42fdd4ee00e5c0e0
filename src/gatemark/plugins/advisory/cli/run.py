"""``gatemark advisory run``, ``shadow`` and ``lint``: inputs, and what services answer."""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import get_args

import click
import msgspec

from gatemark.cli.options import (
    FiniteRange,
    OptionGroup,
    StrictCommand,
    actor_option,
    busy_counter_option,
    json_option,
    output_option,
    store_option,
)
from gatemark.cli.screen import logged_progress, say, show
from gatemark.core.errors import ExitCode
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.plugins.advisory.chat_message import render_message
from gatemark.plugins.advisory.dry_run.ask import AdvisoryChoices
from gatemark.plugins.advisory.dry_run.run import DryRunOutcome, dry_run
from gatemark.plugins.advisory.fixtures.files import open_fixtures
from gatemark.plugins.advisory.record import FallbackKind, Mode
from gatemark.report.outputs import check_formats, write_reports
from gatemark.workspace import Workspace

_shared_options = {
    "services": click.option(
        "--service",
        multiple=True,
        required=True,
        metavar="LANE[/NAME]=TARGET",
        help="Service of a lane, and its own name; 'all' is every lane without one. Repeatable.",
    ),
    "labels": click.option(
        "--labels",
        "--reference-labels",
        metavar="FILE",
        help="Decisions of people or Atlas, as JSON Lines; also rows of 'review labels export'.",
    ),
    "policy": click.option(
        "--policy",
        metavar="FILE",
        help="Advisory policy, as YAML or JSON (default: built in).",
    ),
    "busy_counter": busy_counter_option,
    "timeout_s": click.option(
        "--timeout",
        type=FiniteRange(0, 3600, min_open=True),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Maximum time for one answer, in seconds.",
    ),
    "jobs": click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Maximum number of questions at once; more than one leaves out the NPU counter.",
    ),
}
choice_options = OptionGroup(
    AdvisoryChoices,
    fixtures=click.option(
        "--fixtures",
        metavar="builtin|PATH",
        default="builtin",
        show_default=True,
        help="Fixtures: the built-in set, a JSON Lines file, or a folder with a manifest.",
    ),
    runs=click.option(
        "--runs",
        "--rounds",
        type=click.IntRange(1, 100),
        help="Number of runs over all fixtures (default: 3, or 1 for a recording).",
    ),
    mode=click.option(
        "--mode",
        "--service-mode",
        type=click.Choice(get_args(Mode)),
        default="dry_run",
        show_default=True,
        help="Mode that services are asked in.",
    ),
    **_shared_options,
)
shadow_options = OptionGroup(
    AdvisoryChoices,
    fixtures=click.argument("inputs", metavar="INPUTS"),
    runs=click.option(
        "--runs",
        "--rounds",
        type=click.IntRange(1, 100),
        default=1,
        show_default=True,
        help="Number of runs over all inputs.",
    ),
    **_shared_options,
)


class RunOutputs(msgspec.Struct, frozen=True):
    """What a run expects, and what it leaves behind."""

    expect_fallback: tuple[FallbackKind, ...]
    out: str
    seal: bool
    actor: str | None
    store: str
    json: bool
    output: tuple[str, ...]


output_options = OptionGroup(
    RunOutputs,
    expect_fallback=click.option(
        "--expect-fallback",
        multiple=True,
        type=click.Choice(get_args(FallbackKind)),
        help="Fallback to expect in this run. Repeatable.",
    ),
    out=click.option(
        "--out", required=True, metavar="DIR", help="Folder for records and summaries."
    ),
    seal=click.option("--seal", is_flag=True, help="Keep the result of every run in the store."),
    actor=actor_option,
    store=store_option,
    json=json_option,
    output=output_option,
)


@click.command("run", cls=StrictCommand)
@choice_options
@output_options
def run_command(outputs: RunOutputs, choices: AdvisoryChoices) -> int:
    """Ask advisory services about fixtures and record every answer.

    TARGET is http://127.0.0.1:PORT, gateway (the reference gateway, started for this run),
    python:MODULE:FUNCTION, command:PROGRAM, script:PROGRAM or recorded:DECISIONS.jsonl.
    Services that are down, slow or wrong become records; no answer is ever acted upon.

    Exit 0 pass, 1 fail, 2 bad input and nothing asked, 3 could not be judged. A pass makes lanes
    candidates for discussion and grants nothing. Ctrl-C while asking writes nothing.
    With --mode health_only: exit 0 if every service is healthy, else 1.

    \b
    Examples:
      gatemark advisory run --service all=gateway --out dry-run
      gatemark advisory run --service all=gateway --out dry-run --seal -o report.html
      gatemark advisory run --service cron_n8n_event=script:./advise.sh --runs 1 --out dry-run
      gatemark advisory run --service kanban_hygiene/our_board=http://127.0.0.1:8080 --out board
    """
    return _carry_out(choices, outputs)


@click.command("shadow", cls=StrictCommand)
@shadow_options
@output_options
def shadow_command(outputs: RunOutputs, choices: AdvisoryChoices) -> int:
    """Ask advisory services about real inputs and compare with what people or Atlas decided.

    INPUTS has one JSON object per line: input_class, privacy_class (public, non_private or
    redacted), payload, and decision with source (human_label or atlas_shadow), label and severity.
    An input that looks private is refused, and nothing is asked. Records name an input by the hash
    of its content; its payload is written nowhere. The decision of a person is a reference, that of
    Atlas a signal only. Services decide nothing.

    \b
    Examples:
      gatemark advisory shadow inputs.jsonl --service all=gateway --out shadow
      gatemark advisory shadow inputs.jsonl --service kanban_hygiene/our_board=script:./advise.sh \\
        --labels accepted.jsonl --out shadow
    """
    choices = msgspec.structs.replace(choices, mode="shadow", is_shadow=True)
    return _carry_out(choices, outputs)


def _carry_out(choices: AdvisoryChoices, outputs: RunOutputs) -> int:
    """Ask, record and judge; print the summary."""
    choices = msgspec.structs.replace(
        choices, expected_fallbacks=frozenset(outputs.expect_fallback)
    )
    check_formats(
        outputs.output,
        inputs=[choices.policy, choices.labels, choices.fixtures],
        folder=outputs.out,
    )
    workspace = Workspace(store=outputs.store, jobs=1, actor=outputs.actor)
    # Keep the prints of a Python service out of the JSON document on standard output.
    with logged_progress("asking") as progress, redirect_stdout(sys.stderr):
        judged = dry_run(
            workspace,
            choices,
            Path(outputs.out),
            random_bytes=secrets.token_bytes,
            on_progress=progress,
            seal=outputs.seal,
        )
    say(f"records and summaries are in {outputs.out}", err=True)
    for result in judged.results if outputs.seal else ():
        say(f"sealed {result.id}: {result.verdict}", err=True)
    if outputs.output:
        write_reports(judged.worst, outputs.output, summary=judged.summary)
    if choices.mode == "health_only":
        return _show_health(judged, json=outputs.json)
    show(judged.summary, lambda summary: render_message(summary).decode(), json=outputs.json)
    return EXIT_BY_OUTCOME[judged.outcome]


def _show_health(judged: DryRunOutcome, *, json: bool) -> int:
    """Print which services are healthy; a health check is not evidence and has no verdict."""
    lines = [
        f"{lane}: {'healthy' if is_well else 'not healthy'}"
        for lane, is_well in judged.services.items()
    ]
    show(judged.summary, lambda _: lines, json=json)
    return ExitCode.PASS if all(judged.services.values()) else ExitCode.FAIL


@click.command("lint", cls=StrictCommand)
@click.argument("fixtures", metavar="builtin|PATH")
def lint_command(fixtures: str) -> int:
    """Check fixtures: nothing private, no duplicates, all as pinned.

    PATH is a JSON Lines file or a folder with a manifest. Exit 0 if everything is in order, else 2
    with one line per problem. No part of a payload is printed.

    \b
    Examples:
      gatemark advisory lint builtin
      gatemark advisory lint fixtures.jsonl
    """
    opened = open_fixtures(fixtures)
    pinned = "as pinned" if opened.pinned else "not pinned"
    say(f"{opened.name}: {len(opened.fixtures)} fixtures, {pinned}, {opened.digest}")
    for lane in opened.lanes:
        kinds = Counter(one.kind for one in opened.fixtures if one.input_class == lane)
        say(f"  {lane}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    return ExitCode.PASS
