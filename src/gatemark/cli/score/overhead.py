"""``gatemark score overhead``: what guards cost, on the same windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gatemark.cli.options import (
    FiniteRange,
    json_option,
    max_errors_option,
    output_option,
    store_option,
)
from gatemark.cli.screen import byte_progress, print_json, wants_color
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.exams.overhead.journey import compat_document, score_overhead
from gatemark.exams.overhead.policy_file import PolicyRequest
from gatemark.gate.judge_exam import Scored
from gatemark.report.outputs import (
    check_extensions,
    check_formats,
    write_attachments,
    write_reports,
)
from gatemark.report.terminal import verdict_table
from gatemark.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])


def policy_options(function: F) -> F:
    """Which profile judges, and what is changed in it."""
    decorators = [
        click.option(
            "--budget",
            type=FiniteRange(0, 0.5, hint="; it is a fraction: 0.01 is one percent"),
            help="Most overhead, as a fraction: 0.01 is one percent of perplexity or one point "
            "of accuracy. The profile says it when left out.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["point", "interval"]),
            help="Judge the measured value, or its whole interval; the profile says point.",
        ),
        click.option(
            "--profile",
            type=click.Choice(["release", "ci", "dev"]),
            help="Whose settings to start from; release when left out.",
        ),
        click.option("--policy", metavar="FILE", help="YAML with a profile and overrides."),
        click.option("--reason", default="", help="Why a flag may loosen the profile."),
        click.option("--owner", default="", help="Who answers for it."),
        click.option("--evidence", default="", metavar="REF", help="What it rests on."),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def policy_request(flags: dict[str, Any]) -> PolicyRequest:
    """What the policy options say."""
    return PolicyRequest(
        profile=flags["profile"],
        file=flags["policy"],
        changes={"budget": flags["budget"], "mode": flags["mode"]},
        reason=flags["reason"],
        owner=flags["owner"],
        evidence=flags["evidence"],
    )


@click.command("overhead")
@click.option("--bare", metavar="FILE", help="The arm without guards.")
@click.option("--guarded", metavar="FILE", help="The arm with the whole guard chain.")
@click.option("--noise", metavar="FILE", help="A second bare run, for the noise floor.")
@click.option("--costs", metavar="FILE", help="Recorded time and memory, as the runner writes it.")
@policy_options
@click.option("--compat", metavar="FILE", help="Also write the flat fields of older reports.")
@click.option("--seal", is_flag=True, help="Keep the result and its evidence in the store.")
@click.option("--title", help="What to call the result.")
@max_errors_option
@store_option
@json_option
@output_option
def overhead_command(**flags: Any) -> int:
    """Measure what guards cost and judge it by a budget.

    Both files are gatemark.arm/1: what the arm is, then one line per window. They must agree in
    plan, seeds, device, snapshot, window ids and contents, or nothing is concluded. Perplexity
    kinds are judged by the ratio of perplexities, accuracy by the points lost; gains never fail.

    Exit 0 pass, 1 fail, 2 bad input, 3 could not be judged.

    \b
    Examples:
      gatemark score overhead --bare bare.jsonl --guarded guarded.jsonl
      gatemark score overhead --bare b.jsonl --guarded g.jsonl --mode interval -o report.html
      gatemark score overhead --bare b.jsonl --guarded g.jsonl --budget 0.02 \\
        --reason "pilot" --owner ada --evidence runs/pilot.json
    """
    check_formats(flags["output"])
    if flags["compat"]:
        check_extensions([flags["compat"]], (".json",))
    paths = {role: flags[role] for role in ("bare", "guarded", "noise", "costs")}
    with byte_progress("scoring") as progress:
        scored = score_overhead(
            Workspace(store=flags["store"]),
            paths,
            policy_request(flags),
            ReadingChoices(max_errors=flags["max_errors"]),
            seal=flags["seal"],
            title=flags["title"],
            on_progress=progress,
        )
    return tell(scored, flags)


def tell(scored: Scored, flags: dict[str, Any]) -> int:
    """Write what was asked for, print the rest, and say how it ended."""
    write_reports(scored.result, flags["output"], summary=scored.summary)
    if flags["compat"]:
        target = Path(flags["compat"])
        write_attachments(str(target.parent), {target.name: compat_document(scored.summary)})
    if flags["json"]:
        print_json(scored.summary)
    else:
        click.echo(verdict_table(scored.result, color=wants_color()))
    return EXIT_BY_OUTCOME[scored.result.verdict]
