"""``gatemark review close`` and ``export``: the outcome of a review."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gatemark.cli.options import StrictCommand, store_option
from gatemark.cli.screen import put, show
from gatemark.cli.struct_options import given_group, read_given
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.release.cli.options import Caller, caller_options
from gatemark.release.review.close import (
    CandidateOutcome,
    CloseReview,
    ReviewOutcome,
    close_review,
    export_votes,
)
from gatemark.report.outputs import write_text
from gatemark.report.words import NOT_MEASURED, VERDICT_WORDS, number
from gatemark.workspace import Workspace

close_options = given_group(CloseReview)


@click.command("close", cls=StrictCommand)
@click.argument("name")
@close_options
@caller_options
def close(caller: Caller, given: dict[str, object], *, name: str) -> int:
    """End the voting, reveal the key, and judge.

    The key goes into the ledger and is checked against its commitment. Each candidate gets a sealed
    result by the pairwise exam, the same as for gatemark score preference. Closing again only
    prints the outcome.

    Exit 0 if a candidate is preferred, 1 if the baseline is, 3 if neither is, 4 if the key does not
    match its commitment.

    \b
    Examples:
      gatemark review close letters
      gatemark review close letters --early "two reviewers left" --json
    """
    request = read_given(CloseReview, given, {"review": name})
    outcome = close_review(caller.workspace(), request)
    show(outcome, _format_outcome, json=caller.json)
    return EXIT_BY_OUTCOME[outcome.verdict]


@click.command("export", cls=StrictCommand)
@click.argument("name")
@click.option(
    "--candidate",
    metavar="NAME",
    help="Candidate whose votes to write; required if there are several.",
)
@click.option("-o", "--output", metavar="FILE", help="File to write (default: standard output).")
@store_option
def export_votes_command(
    *, name: str, candidate: str | None, output: str | None, store: str
) -> None:
    """Write the opened votes of a closed review as gatemark.vote/1 lines.

    \b
    Examples:
      gatemark review export letters -o votes.jsonl
      gatemark review export letters | gatemark score preference -
    """
    workspace = Workspace(store=store)
    workspace.existing_store()
    lines = export_votes(workspace, name, candidate)
    if output is None:
        put(lines)
    else:
        write_text(output, lines.decode())


def _format_outcome(outcome: ReviewOutcome) -> Iterator[str]:
    for candidate in outcome.candidates:
        yield from _format_candidate(candidate)
    for side in (outcome.ranking or {}).get("sides", ()):
        low, high = side["interval"]
        yield (f"{side['name']:<20}strength {side['log_strength']:+.3f} [{low:+.3f}, {high:+.3f}]")
    if outcome.ranking is not None and outcome.ranking["reason"] is not None:
        yield f"no ranking: {outcome.ranking['reason']}"
    yield f"both good {outcome.ties['both_good']}, both bad {outcome.ties['both_bad']}"
    for row in outcome.reviewers:
        rate = NOT_MEASURED if row["win_rate"] is None else number(row["win_rate"])
        gold = f", gold {row['gold_right']} of {row['gold']}" if row["gold"] else ""
        out = ", left out" if row["left_out"] else ""
        yield f"  {row['reviewer']}: {row['votes']} votes, win rate {rate}{gold}{out}"
    for measurement in outcome.agreement:
        value = measurement.reason if measurement.value is None else number(measurement.value)
        yield f"{measurement.name:<20}{value} (n={measurement.n})"
    for couple in outcome.pairs_agreement:
        names, said = " and ".join(couple.reviewers), VERDICT_WORDS[couple.verdict]
        yield f"agreement exam      {said}  {names} (n={couple.n})"
    if outcome.arbitration.undecided:
        split = outcome.arbitration
        yield f"without a majority  {split.undecided}, the arbiter decided {split.decided}"
    yield f"vote spread         {outcome.spread.reason}"
    for caveat in outcome.caveats:
        yield f"caveat: {caveat}"


def _format_candidate(found: CandidateOutcome) -> Iterator[str]:
    yield f"{VERDICT_WORDS[found.verdict]}  {found.candidate}: {found.reason}\n"
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
        yield f"{name:<20}{text}"
    for blocker in found.blockers:
        yield f"blocker: {blocker}"
    for caveat in numbers["caveats"]:
        yield f"caveat: {caveat}"
