"""``gatemark review next`` and ``vote``: vote on pairs from the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import click

from gatemark.cli.options import StrictCommand
from gatemark.cli.screen import say, show
from gatemark.cli.struct_options import given_group, read_given, request_option
from gatemark.core.canonical import json_text
from gatemark.core.errors import UsageError
from gatemark.core.request_fields import require_field
from gatemark.release.cli.options import Caller, caller_options
from gatemark.release.review.create import ShownPair, VoteRequest, cast_vote, next_pair
from gatemark.release.review.plan import Answered
from gatemark.workspace import Workspace

KEYS: Final[Mapping[str, Answered]] = {
    "1": "a",
    "2": "b",
    "3": "both_good",
    "4": "both_bad",
    "s": "skip",
}
WORDS: Final[Mapping[Answered, str]] = {
    "a": "A",
    "b": "B",
    "both_good": "both good",
    "both_bad": "both bad",
    "skip": "skipped",
}
MENU: Final = "1 A, 2 B, 3 both good, 4 both bad, s skip, q quit"
QUIT: Final = "q"


@click.command("next", cls=StrictCommand)
@click.argument("name")
@caller_options
def next_pair_command(caller: Caller, *, name: str) -> None:
    """Show the next pair of a reviewer.

    The same pair is shown until it is answered. Nothing in it reveals which answer is whose.

    \b
    Example:
      gatemark review next letters --actor bob
    """
    workspace = caller.workspace()
    show(next_pair(workspace, name, workspace.actor), _pair_lines, json=caller.json)


vote_options = given_group(
    VoteRequest,
    answered=click.argument("answer", required=False, type=click.Choice(list(WORDS))),
    token=request_option(require_field(VoteRequest, "token"), required=False),
)


@click.command("vote", cls=StrictCommand)
@click.argument("name")
@vote_options
@caller_options
def vote_command(caller: Caller, given: dict[str, object], *, name: str) -> None:
    """Vote on the open pair, or on one pair after the other.

    With an ANSWER, saves one vote: a, b, both_good, both_bad or skip. Without, shows pairs one
    after the other, answered with 1, 2, 3, 4 or s; every answer is saved immediately. A vote can be
    changed by its --token until the review is closed; all versions are stored.

    \b
    Examples:
      gatemark review vote letters --actor bob
      gatemark review vote letters both_good --actor bob
      gatemark review vote letters skip --reason "not in my field" --actor bob
    """
    workspace = caller.workspace()
    if "answered" not in given:
        if given.get("token") or given.get("reason") or caller.json:
            raise UsageError("--token, --reason and --json need an ANSWER")
        _walk(workspace, name)
        return
    if "token" not in given:
        pair = next_pair(workspace, name, workspace.actor)
        if pair is None:
            raise UsageError(f"{workspace.actor} has nothing left to review in {name}")
        given["token"] = pair.token
    request = read_given(VoteRequest, given, {"review": name, "actor": workspace.actor})
    saved = cast_vote(workspace, request)
    show(
        saved,
        lambda saved: f"kept: {WORDS[saved.answered]} (version {saved.version})",
        json=caller.json,
    )


def _walk(workspace: Workspace, name: str) -> None:
    kept = 0
    while (pair := next_pair(workspace, name, workspace.actor)) is not None:
        show(pair, _pair_lines, json=False)
        try:
            key = click.prompt(MENU, type=click.Choice([*KEYS, QUIT]), show_choices=False)
            if key == QUIT:
                break
            reason = click.prompt("why") if KEYS[key] == "skip" else ""
        except click.Abort:
            break
        given = {"token": pair.token, "answered": KEYS[key], "reason": reason}
        known = {"review": name, "actor": workspace.actor}
        cast_vote(workspace, read_given(VoteRequest, given, known))
        kept += 1
    else:
        say("nothing left to review")
    say(f"kept {kept} answers")


def _pair_lines(pair: ShownPair | None) -> Iterator[str]:
    if pair is None:
        yield "nothing left to review"
        return
    yield f"\n{pair.ordinal}. {pair.question}"
    for label, content in (("input", pair.input), ("A", pair.a), ("B", pair.b)):
        yield f"--- {label}\n{shown_text(content)}"
    if pair.answered is not None:
        yield f"you answered: {WORDS[pair.answered]}"


def shown_text(content: object) -> str:
    """Return text without terminal control characters, and anything else as JSON."""
    if not isinstance(content, str):
        return json_text(content)
    return "".join(
        mark if mark in "\n\t" or mark.isprintable() else f"\\x{ord(mark):02x}" for mark in content
    )
