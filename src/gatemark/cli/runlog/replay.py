"""``gatemark runlog replay``: what happens in one trace, and when."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.options import json_option
from gatemark.cli.screen import print_json
from gatemark.exams.runlog.replay.view import TraceView, TurnLine, view_trace
from gatemark.report.words import one_line

SHOWN_EVENTS = 40
SHOWN_TEXT = 50


@click.command("replay")
@click.argument("file")
@click.option(
    "--stream",
    type=click.Choice(["full", "content_plane"]),
    default="full",
    show_default=True,
    help="All events, or without turns that only say who is next.",
)
@click.option("--classifications", is_flag=True, help="List the turns and why they are what.")
@click.option("--audit", is_flag=True, help="List only the turns that a person should look at.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=SHOWN_EVENTS,
    show_default=True,
    help="How many events to show.",
)
@click.option("--shift-to-zero", is_flag=True, help="Let the earliest record happen at 0 ms.")
@click.option("--allow-stub", is_flag=True, help="Replay a stub trace too.")
@click.option(
    "--mode",
    type=click.Choice(["strict", "inspect"]),
    default="strict",
    show_default=True,
    help="Whether odd order, times and turns are refused or only warned about.",
)
@json_option
def replay_command(**flags: Any) -> None:
    """Walk through one trace in virtual time.

    Nothing waits: events carry the milliseconds since the first delta, and gaps keep their
    length, also where the control plane is left out.

    \b
    Examples:
      gatemark runlog replay data/traces/case-clinical-0000.trace.jsonl.gz --limit 10
      gatemark runlog replay case.trace.jsonl.gz --stream content_plane --shift-to-zero
      gatemark runlog replay case.trace.jsonl.gz --classifications
    """
    view = view_trace(
        flags["file"],
        stream=flags["stream"],
        shift_to_zero=flags["shift_to_zero"],
        mode=flags["mode"],
        allow_stub=flags["allow_stub"],
        limit=flags["limit"],
    )
    for warning in view.warnings:
        click.echo(f"gatemark: {warning}", err=True)
    if flags["json"]:
        print_json(msgspec.to_builtins(view))
        return
    click.echo(
        f"{view.case_id}: {view.event_count} events, {view.deltas} deltas, "
        f"{len(view.turns)} turns, {view.duration_ms / 1000:.1f} s"
    )
    if flags["classifications"] or flags["audit"]:
        for turn in view.turns:
            if turn.flag is not None or not flags["audit"]:
                click.echo(_turn_words(turn))
        return
    _tell_events(view)


def _turn_words(turn: TurnLine) -> str:
    flag = f" [{turn.flag}]" if turn.flag else ""
    said = one_line(f"{turn.reason}{flag}: {turn.opening}")
    return f"{turn.turn_id:>4}  {one_line(turn.agent_id):<12} {turn.plane:<13} {said}"


def _tell_events(view: TraceView) -> None:
    for event in view.events:
        text = "" if event.delta_text is None else repr(event.delta_text[:SHOWN_TEXT])
        words = (
            f"{event.virtual_time_ms:>9} ms  {event.kind:<10} {one_line(event.agent_id):<12} "
            f"turn {event.turn_id:<3} {one_line(text)}"
        )
        click.echo(words.rstrip())
    hidden = view.event_count - len(view.events)
    if hidden:
        click.echo(f"and {hidden} more events (raise --limit to see them)")
