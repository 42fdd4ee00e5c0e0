"""``gatemark shadow``: measurements of a shadow alongside what is live."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictGroup
from gatemark.release.cli.options import (
    Caller,
    caller_options,
    environment_option,
    show_acted,
)
from gatemark.release.lifecycle.model.nouns import parse_version_ref
from gatemark.release.lifecycle.shadow import push_pairs, read_pairs


@click.group("shadow", cls=StrictGroup)
def shadow_command() -> None:
    """Push measurements that compare a shadow with the live version."""


@shadow_command.command("push")
@click.argument("version", metavar="ASSET@VERSION")
@click.argument("file")
@environment_option
@caller_options
def push_shadow_command(caller: Caller, *, version: str, file: str, environment: str) -> None:
    """Push paired measurements (JSON Lines): both versions on the same inputs.

    A line is a period: start, end, n (pairs), agreed, errors, and means of latency_ms and cost per
    input, each for candidate and live. A release policy with shadow: requires them before a canary.
    Pushing a period again changes nothing; a period that overlaps another is refused together with
    the whole file.

    \b
    Example:
      gatemark shadow push triage@2.1.0 pairs.jsonl --actor eval-bot
    """
    ref = parse_version_ref(version)
    workspace = caller.workspace()
    spans = read_pairs(file)
    done = push_pairs(workspace, ref, spans, actor=workspace.actor, environment=environment)
    show_acted(*done, unchanged="all of this was already pushed", json=caller.json)
