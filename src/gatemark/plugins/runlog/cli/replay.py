"""``gatemark runlog replay``: the events of one trace, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import say, show
from gatemark.cli.struct_options import struct_group
from gatemark.plugins.runlog.replay.view import TraceView, TurnLine, ViewRequest, view_trace
from gatemark.report.words import one_line

SHOWN_TEXT = 50


@click.command("replay", cls=StrictCommand)
@click.argument("file")
@struct_group(ViewRequest)
@click.option("--classifications", is_flag=True, help="List the turns, their plane and the reason.")
@click.option("--audit", is_flag=True, help="List only the turns that a person should review.")
@json_option
def replay_command(
    request: ViewRequest, *, file: str, classifications: bool, audit: bool, json: bool
) -> None:
    """Replay one trace in virtual time.

    Nothing waits: events carry the milliseconds since the first delta. Gaps keep their length, even
    where the control plane is left out.

    \b
    Examples:
      gatemark runlog replay data/traces/case-clinical-0000.trace.jsonl.gz --limit 10
      gatemark runlog replay case.trace.jsonl.gz --stream content_plane --shift-to-zero
      gatemark runlog replay case.trace.jsonl.gz --classifications
    """
    view = view_trace(file, request)
    for warning in view.warnings:
        say(f"gatemark: {warning}", err=True)
    if classifications or audit:
        show(view, lambda view: _describe_turns(view, audit=audit), json=json)
    else:
        show(view, _render_events, json=json)


def _render_headline(view: TraceView) -> str:
    return (
        f"{view.case_id}: {view.event_count} events, {view.deltas} deltas, "
        f"{len(view.turns)} turns, {view.duration_ms / 1000:.1f} s"
    )


def _describe_turns(view: TraceView, *, audit: bool) -> Iterator[str]:
    yield _render_headline(view)
    for turn in view.turns:
        if turn.flag is not None or not audit:
            yield _describe_turn(turn)


def _describe_turn(turn: TurnLine) -> str:
    flag = f" [{turn.flag}]" if turn.flag else ""
    said = one_line(f"{turn.reason}{flag}: {turn.opening}")
    return f"{turn.turn_id:>4}  {one_line(turn.agent_id):<12} {turn.plane:<13} {said}"


def _render_events(view: TraceView) -> Iterator[str]:
    yield _render_headline(view)
    for event in view.events:
        text = "" if event.delta_text is None else repr(event.delta_text[:SHOWN_TEXT])
        words = (
            f"{event.virtual_time_ms:>9} ms  {event.kind:<10} {one_line(event.agent_id):<12} "
            f"turn {event.turn_id:<3} {one_line(text)}"
        )
        yield words.rstrip()
    hidden = view.event_count - len(view.events)
    if hidden:
        yield f"and {hidden} more events (raise --limit to see them)"
