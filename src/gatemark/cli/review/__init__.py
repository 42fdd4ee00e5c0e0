"""``gatemark review``: blind comparison of answers by people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from gatemark.cli.lifecycle.options import acting_options, acting_workspace
from gatemark.cli.options import ALPHA, json_option, store_option
from gatemark.cli.review.attribution import attribution_command
from gatemark.cli.review.labels import labels
from gatemark.cli.review.outcome import close, export
from gatemark.cli.review.vote import next_command, vote
from gatemark.cli.screen import print_json
from gatemark.core.errors import UsageError
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.review.create import CreateReview, ReviewCreated, create_review
from gatemark.review.plan import ReviewPlan
from gatemark.review.status import ReviewStatus, review_status
from gatemark.workspace import Workspace


@click.group("review")
def review_command() -> None:
    """Compare answers blind, by people, to a verdict."""


@review_command.command("create")
@click.argument("name")
@click.option(
    "--candidate",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Samples of a candidate. Repeatable with names, to rank several.",
)
@click.option("--baseline", metavar="[NAME=]FILE", help="Samples of the baseline.")
@click.option("--result", metavar="RESULT", help="Take both arms of this sealed pack run.")
@click.option("--pack", metavar="NAME", help="Take both arms of the newest run of this pack.")
@click.option("--suite", metavar="ID", help="Which suite of the run; needed when it has several.")
@click.option(
    "--asset",
    multiple=True,
    metavar="[ARM=]ASSET@VERSION",
    help="Which registered version an arm is, so that a promotion can cite the outcome.",
)
@click.option("--gold", metavar="FILE", help="Pairs whose right choice is known, mixed in.")
@click.option(
    "--gold-min-rate",
    type=click.FloatRange(0, 1),
    default=0.7,
    show_default=True,
    help="Leave reviewers out who get fewer gold pairs right.",
)
@click.option(
    "--votes-per-pair",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How many people judge each pair.",
)
@click.option(
    "--reviewer", multiple=True, metavar="NAME", help="Who may vote; everybody if left out."
)
@click.option("--arbiter", metavar="NAME", help="Votes only where the others have no majority.")
@click.option(
    "--alpha", type=ALPHA, default=0.05, show_default=True, help="Level of each one-sided claim."
)
@click.option(
    "--peeking",
    is_flag=True,
    help="Numbers may be looked at before the end: an e-value decides, which allows that.",
)
@click.option("--min-decisive", type=click.IntRange(1), default=20, show_default=True)
@click.option(
    "--coverage-min",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="Share of the items that must have votes.",
)
@click.option("--trim", is_flag=True, help="Cut blanks off the ends of all answers.")
@click.option("--question", metavar="TEXT", default="Which answer is better?", show_default=True)
@click.option(
    "--on-unpaired",
    type=click.Choice(["error", "exclude"]),
    default="error",
    show_default=True,
    help="Refuse items that an arm lacks, or leave them out; they count as missing.",
)
@acting_options
def create(**flags: Any) -> None:
    """Pair answers by item, and seal who sees which of them first.

    Files hold gatemark.sample/1 or another tool's log; gold files hold lines of id, input and
    either better and worse, or same. The positions come from a random key. Its commitment goes
    into the ledger now, the key itself when the review is closed.

    \b
    Examples:
      gatemark review create letters --candidate new.jsonl --baseline old.jsonl
      gatemark review create letters --pack letters --suite tone --votes-per-pair 2
      gatemark review create letters --candidate a.jsonl --baseline b.jsonl --asset letters@2.0.0
    """
    arms = [_arm(text, "candidate") for text in flags["candidate"]]
    if flags["baseline"] is not None:
        arms.append(_arm(flags["baseline"], "baseline"))
    elif arms:
        raise UsageError("candidates need a --baseline to be compared with")
    files = dict(arms)
    if len(files) < len(arms):
        raise UsageError("several candidates need names: --candidate NAME=FILE")
    names = list(files) or ["candidate", "baseline"]
    fields: dict[str, Any] = {
        "candidates": names[:-1],
        "baseline": names[-1],
        "reviewers": flags["reviewer"],
    }
    same = ("name", "alpha", "peeking", "min_decisive", "coverage_min", "votes_per_pair")
    fields |= {key: flags[key] for key in (*same, "arbiter", "gold_min_rate", "trim", "question")}
    try:
        plan = msgspec.convert(fields, ReviewPlan)
    except msgspec.ValidationError as error:
        raise UsageError(f"review {flags['name']}: {error}") from error
    created = create_review(
        acting_workspace(flags, must_exist=False),
        CreateReview(
            plan=plan,
            files=files,
            result=flags["result"],
            pack=flags["pack"],
            suite=flags["suite"],
            gold=flags["gold"],
            assets=dict(_asset(text, names[0]) for text in flags["asset"]),
            note=flags["note"],
        ),
        ReadingChoices(on_unpaired=flags["on_unpaired"]),
    )
    if flags["json"]:
        print_json(created)
    else:
        _tell_created(created)


@review_command.command("status")
@click.argument("name")
@click.option(
    "--look", is_flag=True, help="Ask for the numbers so far; the ledger notes who looked."
)
@click.option("--actor", metavar="NAME", envvar="GATEMARK_ACTOR", help="Who asks.")
@store_option
@json_option
def status(**flags: Any) -> None:
    """Tell how far a review is.

    Numbers are hidden until the review is closed. A review made with --peeking shows them to
    people who do not vote in it and ask with --look; whoever looked cannot vote any more.

    \b
    Examples:
      gatemark review status letters
      gatemark review status letters --look --actor ada
    """
    workspace = Workspace(store=flags["store"], actor=flags["actor"])
    workspace.existing_store()
    found = review_status(workspace, flags["name"], workspace.actor if flags["look"] else None)
    if flags["json"]:
        print_json(found)
    else:
        _tell_status(found)


for command in (attribution_command, next_command, vote, close, export, labels):
    review_command.add_command(command)


def _arm(text: str, default: str) -> tuple[str, str]:
    name, found, path = text.partition("=")
    if not found or "/" in name or Path(text).exists():
        return default, text
    return name, path


def _asset(text: str, default: str) -> tuple[str, str]:
    arm, found, version = text.partition("=")
    return (arm, version) if found else (default, text)


def _tell_created(created: ReviewCreated) -> None:
    click.echo(f"review {created.review}: {created.pair_count} pairs, {created.gold_count} gold")
    click.echo(f"sealed as {created.commitment}")
    for reason, count in created.left_out.items():
        click.echo(f"left out, {reason.replace('_', ' ')}: {count}")
    for tell in created.tells:
        click.echo(f"tell: {tell}")


def _tell_status(found: ReviewStatus) -> None:
    click.echo(
        f"review {found.review} is {found.state}: {found.pairs_complete} of {found.pairs} pairs "
        f"have {found.votes_per_pair} vote(s)"
    )
    click.echo(f"votes {found.votes}, skips {found.skips}, without a majority {found.undecided}")
    for reviewer, count in found.reviewers.items():
        click.echo(f"  {reviewer}: {count}")
    if found.hidden_because is not None:
        click.echo(found.hidden_because)
    for candidate, numbers in (found.numbers or {}).items():
        if numbers is None:
            click.echo(f"{candidate}: no votes yet")
        else:
            click.echo(
                f"{candidate}: {numbers['wins']} won, {numbers['losses']} lost, "
                f"{numbers['ties']} tied; {numbers['reason']}"
            )
