"""``gatemark review``: blind comparison of answers by people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from gatemark.cli.lifecycle.options import Acting, Caller, acting_options, caller_options
from gatemark.cli.options import ALPHA, OptionGroup, StrictGroup
from gatemark.cli.review.attribution import attribution_command
from gatemark.cli.review.labels import labels
from gatemark.cli.review.outcome import close, export_votes_command
from gatemark.cli.review.vote import next_pair_command, vote_command
from gatemark.cli.screen import show
from gatemark.core.errors import UsageError
from gatemark.evidence.reading_choices import OnUnpaired, ReadingChoices
from gatemark.review.create import CreateReview, ReviewCreated, create_review
from gatemark.review.plan import ReviewPlan
from gatemark.review.status import ReviewStatus, review_status
from gatemark.workspace import Workspace


class PlanSettings(msgspec.Struct, frozen=True):
    """The fields of a review plan that are options."""

    gold_min_rate: float
    votes_per_pair: int
    reviewers: tuple[str, ...]
    arbiter: str | None
    alpha: float
    peeking: bool
    min_decisive: int
    coverage_min: float
    trim: bool
    question: str


plan_options = OptionGroup(
    PlanSettings,
    gold_min_rate=click.option(
        "--gold-min-rate",
        type=click.FloatRange(0, 1),
        default=0.7,
        help="Minimum share of gold pairs that a reviewer must get right to be counted.",
    ),
    votes_per_pair=click.option(
        "--votes-per-pair",
        type=click.IntRange(1, 100),
        default=1,
        help="Number of people who judge each pair.",
    ),
    reviewers=click.option(
        "--reviewer",
        multiple=True,
        metavar="NAME",
        help="Person who may vote (default: everybody). Repeatable.",
    ),
    arbiter=click.option(
        "--arbiter", metavar="NAME", help="Person who votes only where the others have no majority."
    ),
    alpha=click.option(
        "--alpha", type=ALPHA, default=0.05, help="Significance level of each one-sided claim."
    ),
    peeking=click.option(
        "--peeking",
        is_flag=True,
        help="Allow reading the numbers before the end; decided by an anytime-valid e-value.",
    ),
    min_decisive=click.option(
        "--min-decisive",
        type=click.IntRange(1),
        default=20,
        help="Minimum number of votes that prefer one side.",
    ),
    coverage_min=click.option(
        "--coverage-min",
        type=click.FloatRange(0, 1),
        default=1.0,
        help="Minimum share of items with votes.",
    ),
    trim=click.option(
        "--trim", is_flag=True, help="Trim whitespace from both ends of all answers."
    ),
    question=click.option(
        "--question",
        metavar="TEXT",
        default="Which answer is better?",
        help="Question to ask reviewers.",
    ),
)


@click.group("review", cls=StrictGroup)
def review_command() -> None:
    """Let people compare answers blind, and turn their votes into a verdict."""


@review_command.command("create")
@click.argument("name")
@click.option(
    "--candidate",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Samples of a candidate. Repeatable with names, to rank several.",
)
@click.option("--baseline", metavar="[NAME=]FILE", help="Samples of the baseline.")
@click.option("--result", metavar="RESULT", help="Sealed pack run to take both arms from.")
@click.option("--pack", metavar="NAME", help="Pack whose newest run to take both arms from.")
@click.option("--suite", metavar="ID", help="Suite of the run; required if it has several.")
@click.option(
    "--asset",
    multiple=True,
    metavar="[ARM=]ASSET@VERSION",
    help="Registered version of an arm, so that a promotion can cite the outcome. Repeatable.",
)
@click.option("--gold", metavar="FILE", help="Pairs with a known right choice, to mix in.")
@plan_options
@click.option(
    "--on-unpaired",
    type=click.Choice(["error", "exclude"]),
    default="error",
    help="Whether to refuse items that an arm lacks, or to exclude them; they count as missing.",
)
@acting_options
def create_review_command(
    acting: Acting,
    settings: PlanSettings,
    *,
    name: str,
    candidate: tuple[str, ...],
    baseline: str | None,
    result: str | None,
    pack: str | None,
    suite: str | None,
    asset: tuple[str, ...],
    gold: str | None,
    on_unpaired: OnUnpaired,
) -> None:
    """Pair answers by item, and seal who sees which of them first.

    Files hold gatemark.sample/1 or another tool's log; gold files hold lines of id, input and
    either better and worse, or same. A random key decides the positions. Its commitment goes into
    the ledger now, the key itself when the review is closed.

    \b
    Examples:
      gatemark review create letters --candidate new.jsonl --baseline old.jsonl
      gatemark review create letters --pack letters --suite tone --votes-per-pair 2
      gatemark review create letters --candidate a.jsonl --baseline b.jsonl --asset letters@2.0.0
    """
    arms = [_parse_arm(text, "candidate") for text in candidate]
    if baseline is not None:
        arms.append(_parse_arm(baseline, "baseline"))
    elif arms:
        raise UsageError("candidates need a --baseline to be compared with")
    files = dict(arms)
    if len(files) < len(arms):
        raise UsageError("several candidates need names: --candidate NAME=FILE")
    names = list(files) or ["candidate", "baseline"]
    fields = {"name": name, "candidates": names[:-1], "baseline": names[-1]}
    try:
        plan = msgspec.convert({**fields, **msgspec.structs.asdict(settings)}, ReviewPlan)
    except msgspec.ValidationError as error:
        raise UsageError(f"review {name}: {error}") from error
    created = create_review(
        acting.workspace(must_exist=False),
        CreateReview(
            plan=plan,
            files=files,
            result=result,
            pack=pack,
            suite=suite,
            gold=gold,
            assets=dict(_parse_asset(text, names[0]) for text in asset),
            note=acting.note,
        ),
        ReadingChoices(on_unpaired=on_unpaired),
    )
    show(created, _format_created, json=acting.json)


@review_command.command("status")
@click.argument("name")
@click.option(
    "--look", is_flag=True, help="Show the numbers so far; the ledger records who looked."
)
@caller_options
def review_status_command(caller: Caller, *, name: str, look: bool) -> None:
    """Show the progress of a review.

    Numbers are hidden until the review is closed. A review created with --peeking shows them to
    people who do not vote in it and ask with --look; whoever looked can no longer vote.

    \b
    Examples:
      gatemark review status letters
      gatemark review status letters --look --actor ada
    """
    workspace = Workspace(store=caller.store, actor=caller.actor)
    workspace.existing_store()
    found = review_status(workspace, name, workspace.actor if look else None)
    show(found, _format_status, json=caller.json)


for command in (
    attribution_command,
    next_pair_command,
    vote_command,
    close,
    export_votes_command,
    labels,
):
    review_command.add_command(command)


def _parse_arm(text: str, default: str) -> tuple[str, str]:
    name, found, path = text.partition("=")
    if not found or "/" in name or Path(text).exists():
        return default, text
    return name, path


def _parse_asset(text: str, default: str) -> tuple[str, str]:
    arm, found, version = text.partition("=")
    return (arm, version) if found else (default, text)


def _format_created(created: ReviewCreated) -> Iterator[str]:
    yield f"review {created.review}: {created.pair_count} pairs, {created.gold_count} gold"
    yield f"sealed as {created.commitment}"
    for reason, count in created.left_out.items():
        yield f"left out, {reason.replace('_', ' ')}: {count}"
    for tell in created.tells:
        yield f"tell: {tell}"


def _format_status(found: ReviewStatus) -> Iterator[str]:
    yield (
        f"review {found.review} is {found.state}: {found.pairs_complete} of {found.pairs} pairs "
        f"have {found.votes_per_pair} vote(s)"
    )
    yield f"votes {found.votes}, skips {found.skips}, without a majority {found.undecided}"
    for reviewer, count in found.reviewers.items():
        yield f"  {reviewer}: {count}"
    if found.hidden_because is not None:
        yield found.hidden_because
    for candidate, numbers in (found.numbers or {}).items():
        if numbers is None:
            yield f"{candidate}: no votes yet"
        else:
            yield (
                f"{candidate}: {numbers['wins']} won, {numbers['losses']} lost, "
                f"{numbers['ties']} tied; {numbers['reason']}"
            )
