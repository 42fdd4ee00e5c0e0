"""``gatemark comment``: a result as a comment on a pull request."""

from __future__ import annotations

import os

import click

from gatemark.cli.options import StrictCommand, store_option
from gatemark.cli.results import find_result
from gatemark.cli.screen import put, say
from gatemark.report.comment import make_marker, render_comment


@click.command("comment", cls=StrictCommand)
@click.argument("reference", metavar="RESULT")
@click.option(
    "--key",
    "--comment-key",
    metavar="NAME",
    help="Name of the comment; a run replaces the comment with its key (default: the pack).",
)
@click.option(
    "--post",
    type=click.Choice(["github"]),
    help="Service to post to, from inside its job. Replaces the comment of an earlier run.",
)
@store_option
def comment_command(reference: str, key: str | None, post: str | None, store: str) -> None:
    """Print a result as Markdown for a pull request, or post it there.

    RESULT is an id in the store, or a JSON file written by 'gatemark run --json'. Its seal is
    checked first.

    \b
    Examples:
      gatemark comment 3f2a9c01
      gatemark comment result.json --post github
    """
    result = find_result(reference, store)
    name = key or result.pack.name
    text = render_comment(result, name)
    if post is None:
        put(text)
        return
    from gatemark.ci.github import post_comment, pull_request_of  # noqa: PLC0415 - only to post

    say(post_comment(pull_request_of(os.environ), text, make_marker(name)))
