"""``gatemark review close`` and ``export``: what a review came to."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.lifecycle.options import acting_workspace
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.report.outputs import write_text
from gatemark.report.words import NOT_MEASURED, VERDICT_WORDS, number
from gatemark.review.close import (
    CandidateOutcome,
    CloseReview,
    ReviewOutcome,
    close_review,
    export_votes,
)
from gatemark.workspace import Workspace


@click.command("close")
@click.argument("name")
@click.option("--early", metavar="WHY", help="End it although votes are missing; they hold a pass.")
@click.option("--actor", metavar="NAME", envvar="GATEMARK_ACTOR", help="Who closes.")
@store_option
@json_option
def close(**flags: Any) -> int:
    """End the voting, reveal the key, and judge.

    The key goes into the ledger and is checked against its commitment. Each candidate gets a
    sealed result by the pairwise exam, which gatemark score preference shares. Closing again only
    prints the outcome again.

    Exit 0 when a candidate is preferred, 1 when the baseline is, 3 when neither is shown, 4 when
    the key does not fit what was sealed.

    \b
    Examples:
      gatemark review close letters
      gatemark review close letters --early "two reviewers left" --json
    """
    workspace = acting_workspace(flags)
    outcome = close_review(workspace, CloseReview(review=flags["name"], early=flags["early"]))
    if flags["json"]:
        print_json(outcome)
    else:
        _tell(outcome)
    return EXIT_BY_OUTCOME[outcome.verdict]


@click.command("export")
@click.argument("name")
@click.option("--candidate", metavar="NAME", help="Whose votes; needed when there are several.")
@click.option("-o", "--output", metavar="FILE", help="Where to; standard output when left out.")
@store_option
def export(**flags: Any) -> None:
    """Write the opened votes of a closed review as gatemark.vote/1 lines.

    \b
    Examples:
      gatemark review export letters -o votes.jsonl
      gatemark review export letters | gatemark score preference -
    """
    workspace = Workspace(store=flags["store"])
    workspace.existing_store()
    lines = export_votes(workspace, flags["name"], flags["candidate"])
    if flags["output"] is None:
        click.echo(lines, nl=False)
    else:
        write_text(flags["output"], lines.decode())


def _tell(outcome: ReviewOutcome) -> None:
    for candidate in outcome.candidates:
        _tell_candidate(candidate)
    for side in (outcome.ranking or {}).get("sides", ()):
        low, high = side["interval"]
        click.echo(
            f"{side['name']:<20}strength {side['log_strength']:+.3f} [{low:+.3f}, {high:+.3f}]"
        )
    if outcome.ranking is not None and outcome.ranking["reason"] is not None:
        click.echo(f"no ranking: {outcome.ranking['reason']}")
    click.echo(f"both good {outcome.ties['both_good']}, both bad {outcome.ties['both_bad']}")
    for row in outcome.reviewers:
        rate = NOT_MEASURED if row["win_rate"] is None else number(row["win_rate"])
        gold = f", gold {row['gold_right']} of {row['gold']}" if row["gold"] else ""
        out = ", left out" if row["left_out"] else ""
        click.echo(f"  {row['reviewer']}: {row['votes']} votes, win rate {rate}{gold}{out}")
    for measurement in outcome.agreement:
        shown = measurement.reason if measurement.value is None else number(measurement.value)
        click.echo(f"{measurement.name:<20}{shown} (n={measurement.n})")
    for couple in outcome.pairs_agreement:
        names, said = " and ".join(couple.reviewers), VERDICT_WORDS[couple.verdict]
        click.echo(f"agreement exam      {said}  {names} (n={couple.n})")
    if outcome.arbitration.undecided:
        split = outcome.arbitration
        click.echo(f"without a majority  {split.undecided}, the arbiter decided {split.decided}")
    click.echo(f"vote spread         {outcome.spread.reason}")
    for caveat in outcome.caveats:
        click.echo(f"caveat: {caveat}")


def _tell_candidate(found: CandidateOutcome) -> None:
    click.echo(f"{VERDICT_WORDS[found.verdict]}  {found.candidate}: {found.reason}\n")
    numbers = found.numbers
    if not numbers:
        return
    rate = NOT_MEASURED
    if numbers["win_rate"] is not None:
        low, high = numbers["interval"]
        rate = f"{number(numbers['win_rate'])} [{number(low)}, {number(high)}]"
    p_value = NOT_MEASURED if numbers["p_value"] is None else number(numbers["p_value"])
    position = numbers["position"]
    first = position["first_win_rate"]
    rows = [
        ("items", f"{found.items} judged, {found.items_missing} missing"),
        ("wins, losses, ties", f"{numbers['wins']}, {numbers['losses']}, {numbers['ties']}"),
        ("win rate", rate),
        ("one-sided p-value", p_value),
        ("log e-value", number(numbers["log_e_value"])),
        ("shown first won", NOT_MEASURED if first is None else number(first)),
        ("result", str(found.result_id)),
    ]
    for name, text in rows:
        click.echo(f"{name:<20}{text}")
    for blocker in found.blockers:
        click.echo(f"blocker: {blocker}")
    for caveat in numbers["caveats"]:
        click.echo(f"caveat: {caveat}")
