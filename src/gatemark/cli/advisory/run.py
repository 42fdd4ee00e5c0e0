"""``gatemark advisory run``: fixtures to services, one decision record each."""

from __future__ import annotations

import secrets
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, get_args

import click

from gatemark.cli.options import FiniteRange, busy_counter_option, json_option
from gatemark.cli.screen import print_json, told_progress
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.exams.advisory.decision import FallbackKind, Mode
from gatemark.exams.advisory.dry_run.journey import dry_run
from gatemark.exams.advisory.dry_run.run import AdvisoryChoices
from gatemark.exams.advisory.views import render_markdown
from gatemark.workspace import Workspace


@click.command("run")
@click.option(
    "--fixtures",
    metavar="builtin|PATH",
    default="builtin",
    show_default=True,
    help="Built-in set, a JSON Lines file, or a folder with a manifest.",
)
@click.option(
    "--service",
    multiple=True,
    required=True,
    metavar="LANE=TARGET",
    help="Who advises on a lane; 'all' stands for every lane without one. Repeatable.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, 100),
    help="How often every fixture is asked about; 3 when left out, 1 for a recording.",
)
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    default="dry_run",
    show_default=True,
    help="What the services are told, and what is asked of them.",
)
@click.option("--labels", metavar="FILE", help="Decisions of people or Atlas, as JSON Lines.")
@click.option("--policy", metavar="FILE", help="Advisory policy (YAML or JSON); defaults without.")
@busy_counter_option
@click.option(
    "--timeout",
    type=FiniteRange(0, 3600, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long one answer may take.",
)
@click.option(
    "--expect-fallback",
    multiple=True,
    type=click.Choice(get_args(FallbackKind)),
    help="A fallback that is no surprise in this run. Repeatable.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many questions may be under way at once; more than one leaves the NPU counter out.",
)
@click.option("--out", required=True, metavar="DIR", help="Folder for records and summaries.")
@json_option
def run_command(**flags: Any) -> int:
    """Ask advisory services about fixtures and record every answer.

    TARGET is http://127.0.0.1:PORT, gateway (the reference gateway, started for this run),
    python:MODULE:FUNCTION, command:PROGRAM, script:PROGRAM or recorded:DECISIONS.jsonl.
    Services that are down, slow or wrong become records; nothing is ever acted upon.

    Exit 0 pass, 1 fail, 2 bad input and nothing asked, 3 could not be judged. A pass makes lanes
    candidates for discussion and grants nothing. Ctrl-C while asking writes nothing.

    \b
    Examples:
      gatemark advisory run --service all=gateway --out dry-run
      gatemark advisory run --service cron_n8n_event=script:./advise.sh --runs 1 --out dry-run
    """
    choices = AdvisoryChoices(
        services=flags["service"],
        fixtures=flags["fixtures"],
        runs=flags["runs"],
        mode=flags["mode"],
        labels=flags["labels"],
        policy=flags["policy"],
        busy_counter=flags["busy_counter"],
        timeout_s=flags["timeout"],
        jobs=flags["jobs"],
        expected_fallbacks=frozenset(flags["expect_fallback"]),
    )
    # What a Python service prints must not get between a script and the JSON document.
    with told_progress("asking") as progress, redirect_stdout(sys.stderr):
        judged = dry_run(
            Workspace(jobs=1),
            choices,
            Path(flags["out"]),
            random_bytes=secrets.token_bytes,
            on_progress=progress,
        )
    click.echo(f"records and summaries are in {flags['out']}", err=True)
    if flags["json"]:
        print_json(judged.summary)
    else:
        click.echo(render_markdown(judged.summary).decode(), nl=False)
    return EXIT_BY_OUTCOME[judged.outcome]
