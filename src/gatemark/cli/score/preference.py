"""``gatemark score preference``: whether blind reviewers prefer the candidate."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.options import ALPHA, document_option, json_option, max_errors_option
from gatemark.cli.screen import byte_progress, print_json
from gatemark.core.canonical import json_file
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.exams.preference.journey import (
    MIN_DECISIVE,
    PreferenceRequest,
    PreferenceScore,
    score_preference,
)
from gatemark.report.outputs import check_extensions, write_documents
from gatemark.report.words import NOT_MEASURED, VERDICT_WORDS, number
from gatemark.workspace import Workspace


@click.command("preference")
@click.argument("file")
@click.option(
    "--alpha",
    type=ALPHA,
    default=0.05,
    show_default=True,
    help="Level of each one-sided claim.",
)
@click.option(
    "--peeking",
    is_flag=True,
    help="Somebody may look before all votes are in: an e-value decides, which allows that.",
)
@click.option(
    "--min-decisive",
    type=click.IntRange(1),
    default=MIN_DECISIVE,
    show_default=True,
    help="Items that must not be ties.",
)
@max_errors_option
@document_option
@json_option
def preference_command(**flags: Any) -> int:
    """Judge whether blind reviewers prefer the candidate.

    FILE holds gatemark.vote/1: lines of item, reviewer, choice (candidate, baseline or tie) and
    first (the side shown first); plain, gzip or zstd, '-' is standard input. The votes on an item
    count as one, by majority; a reviewer votes once per item. Ties decide nothing.

    Exit 0 when the candidate is preferred, 1 when the baseline is, 3 when neither is shown, 2 bad
    input.

    \b
    Examples:
      gatemark score preference votes.jsonl
      gatemark score preference votes.jsonl --peeking --json
    """
    check_extensions(flags["output"], (".json",))
    request = PreferenceRequest(
        path=flags["file"],
        alpha=flags["alpha"],
        peeking=flags["peeking"],
        min_decisive=flags["min_decisive"],
    )
    with byte_progress("scoring") as progress:
        scored = score_preference(
            request, Workspace(jobs=1), ReadingChoices(max_errors=flags["max_errors"]), progress
        )
    write_documents(
        flags["output"],
        {".json": lambda: json_file(scored)},
    )
    if flags["json"]:
        print_json(scored)
    else:
        _tell(scored)
    return EXIT_BY_OUTCOME[scored.verdict]


def _tell(scored: PreferenceScore) -> None:
    click.echo(f"{VERDICT_WORDS[scored.verdict]}  {scored.reason}\n")
    shown = NOT_MEASURED
    if scored.interval is not None and scored.win_rate is not None:
        low, high = scored.interval
        shown = f"{number(scored.win_rate)} [{number(low)}, {number(high)}]"
    p_value = NOT_MEASURED if scored.p_value is None else number(scored.p_value)
    rows = [
        ("items", f"{scored.items} ({scored.votes} votes, {scored.reviewers} reviewers)"),
        ("wins, losses, ties", f"{scored.wins}, {scored.losses}, {scored.ties}"),
        ("win rate", shown),
        ("one-sided p-value", p_value),
        ("log e-value", number(scored.log_e_value)),
    ]
    for name, text in rows:
        click.echo(f"{name:<20}{text}")
    for caveat in scored.caveats:
        click.echo(f"caveat: {caveat}")
