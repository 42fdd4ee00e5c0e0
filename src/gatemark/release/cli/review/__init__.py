"""``gatemark review``: blind comparison of answers by people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from gatemark.cli.options import StrictGroup
from gatemark.cli.screen import show
from gatemark.cli.struct_options import given_group, read_given
from gatemark.core.errors import UsageError
from gatemark.release.cli.options import Caller, caller_options
from gatemark.release.cli.review.attribution import attribution_command
from gatemark.release.cli.review.labels import labels
from gatemark.release.cli.review.outcome import close, export_votes_command
from gatemark.release.cli.review.vote import next_pair_command, vote_command
from gatemark.release.review.create import CreateReview, ReviewCreated, create_review
from gatemark.release.review.status import (
    LookAtNumbers,
    ReviewStatus,
    look_at_numbers,
    review_status,
)
from gatemark.workspace import Workspace

NAMED_BY_FILES: Final = ("name", "candidates", "baseline")
review_options = given_group(
    CreateReview,
    without=NAMED_BY_FILES,
    assets=click.option(
        "--asset",
        multiple=True,
        metavar="[ARM=]ASSET@VERSION",
        help="Registered version of an arm, so that a promotion can cite the outcome. Repeatable.",
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
@review_options
@caller_options
def create_review_command(
    caller: Caller,
    given: dict[str, object],
    *,
    name: str,
    candidate: tuple[str, ...],
    baseline: str | None,
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
    versions: tuple[str, ...] = given.pop("assets")  # type: ignore[assignment]
    given["assets"] = dict(_parse_asset(text, names[0]) for text in versions)
    arms_of = {"name": name, "candidates": names[:-1], "baseline": names[-1]}
    request = read_given(
        CreateReview, {**given, **arms_of}, {"files": files}, arguments=NAMED_BY_FILES
    )
    created = create_review(caller.workspace(must_exist=False), request)
    show(created, _format_created, json=caller.json)


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
    seen = look_at_numbers(workspace, LookAtNumbers(review=name)) if look else None
    found = review_status(workspace, name, seen)
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
