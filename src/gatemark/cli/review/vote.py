"""``gatemark review next`` and ``vote``: one pair after the other, without the page."""

from __future__ import annotations

from typing import Any, Final, cast

import click

from gatemark.cli.lifecycle.options import acting_workspace
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.canonical import json_text
from gatemark.core.errors import UsageError
from gatemark.review.create import ShownPair, VoteRequest, cast_vote, next_pair
from gatemark.review.plan import Answered
from gatemark.workspace import Workspace

KEYS: Final = {"1": "a", "2": "b", "3": "both_good", "4": "both_bad", "s": "skip"}
WORDS: Final = {
    "a": "A",
    "b": "B",
    "both_good": "both good",
    "both_bad": "both bad",
    "skip": "skipped",
}
MENU: Final = "1 A, 2 B, 3 both good, 4 both bad, s skip, q quit"
QUIT: Final = "q"


@click.command("next")
@click.argument("name")
@click.option("--actor", metavar="NAME", envvar="GATEMARK_ACTOR", help="Who reviews.")
@store_option
@json_option
def next_command(**flags: Any) -> None:
    """Show the next pair of a reviewer.

    The same pair comes again until it is answered. Nothing in it tells which answer is whose.

    \b
    Example:
      gatemark review next letters --actor bob
    """
    workspace = acting_workspace(flags)
    pair = next_pair(workspace, flags["name"], workspace.actor)
    if flags["json"]:
        print_json(pair)
    elif pair is None:
        click.echo("nothing left to review")
    else:
        _show(pair)


@click.command("vote")
@click.argument("name")
@click.argument("answer", required=False, type=click.Choice(list(WORDS)))
@click.option("--token", metavar="TOKEN", help="A pair seen before; the open one when left out.")
@click.option("--reason", default="", metavar="TEXT", help="Why; a skip needs one.")
@click.option("--actor", metavar="NAME", envvar="GATEMARK_ACTOR", help="Who reviews.")
@store_option
@json_option
def vote(**flags: Any) -> None:
    """Vote on the pair before you, or on one after the other.

    With an ANSWER one vote is kept: a, b, both_good, both_bad or skip. Without, pairs are shown
    one after the other and answered by 1, 2, 3, 4 or s; every answer is kept at once. A vote can
    be changed by its --token until the review is closed; all versions are kept.

    \b
    Examples:
      gatemark review vote letters --actor bob
      gatemark review vote letters both_good --actor bob
      gatemark review vote letters skip --reason "not in my field" --actor bob
    """
    workspace = acting_workspace(flags)
    name, answer = flags["name"], flags["answer"]
    if answer is None:
        if flags["token"] or flags["reason"] or flags["json"]:
            raise UsageError("--token, --reason and --json need an ANSWER")
        _walk(workspace, name)
        return
    token = flags["token"]
    if token is None:
        pair = next_pair(workspace, name, workspace.actor)
        if pair is None:
            raise UsageError(f"{workspace.actor} has nothing left to review in {name}")
        token = pair.token
    saved = cast_vote(workspace, _request(workspace, name, token, answer, flags["reason"]))
    if flags["json"]:
        print_json(saved)
    else:
        click.echo(f"kept: {WORDS[answer]} (version {saved.version})")


def _walk(workspace: Workspace, name: str) -> None:
    kept = 0
    while (pair := next_pair(workspace, name, workspace.actor)) is not None:
        _show(pair)
        try:
            key = click.prompt(MENU, type=click.Choice([*KEYS, QUIT]), show_choices=False)
            if key == QUIT:
                break
            reason = click.prompt("why") if KEYS[key] == "skip" else ""
        except click.Abort:
            break
        cast_vote(workspace, _request(workspace, name, pair.token, KEYS[key], reason))
        kept += 1
    else:
        click.echo("nothing left to review")
    click.echo(f"kept {kept} answers")


def _request(workspace: Workspace, name: str, token: str, answer: str, reason: str) -> VoteRequest:
    return VoteRequest(
        review=name,
        reviewer=workspace.actor,
        token=token,
        answered=cast("Answered", answer),
        reason=reason,
    )


def _show(pair: ShownPair) -> None:
    click.echo(f"\n{pair.ordinal}. {pair.question}")
    for label, content in (("input", pair.input), ("A", pair.a), ("B", pair.b)):
        click.echo(f"--- {label}\n{shown_text(content)}")
    if pair.answered is not None:
        click.echo(f"you said: {WORDS[pair.answered]}")


def shown_text(content: Any) -> str:
    """Text in lines that cannot steer a terminal; anything else as JSON."""
    if not isinstance(content, str):
        return json_text(content)
    return "".join(
        mark if mark in "\n\t" or mark.isprintable() else f"\\x{ord(mark):02x}" for mark in content
    )
