"""Assets, histories and reasons as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatemark.release.lifecycle.act import CommandResult
from gatemark.release.lifecycle.decisions.citation import short
from gatemark.release.lifecycle.events.fact import Fact
from gatemark.release.lifecycle.model.stages import LANE, LANE_NOTE
from gatemark.release.lifecycle.views.views import (
    AssetCard,
    AssetRow,
    Citation,
    ClimbStep,
    History,
    Live,
    ShownVote,
    Why,
)
from gatemark.report import words

ONE_PERSON = "ONE-PERSON MODE: one person may hold every role and approve their own versions"


def _join_lines(lines: Sequence[str]) -> str:
    return "".join(words.clean(line).rstrip() + "\n" for line in lines)


def align_columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows with aligned columns."""
    if not rows:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def list_text(rows: Sequence[AssetRow]) -> str:
    """Return one line per asset and environment."""
    if not rows:
        return ""
    cells = [
        (
            row.asset,
            row.kind,
            row.environment,
            row.enabled or "nothing",
            row.canary or "-",
            str(row.version_count),
        )
        for row in rows
    ]
    return _join_lines(
        align_columns([("asset", "kind", "environment", "live", "canary", "versions"), *cells])
    )


def asset_text(card: AssetCard) -> str:
    """Return an asset and its versions as text."""
    lines = [
        *([ONE_PERSON] if card.is_one_person else []),
        f"{card.asset}: {card.kind}, {card.risk} risk, revision {card.revision}",
        f"live in {card.environment}: {card.enabled or 'nothing'}",
        f"required pack: {card.required_pack or 'not set'}"
        + (f" (by {card.required_pack_editor})" if card.required_pack_editor else ""),
        *([LANE_NOTE] if card.kind == LANE else []),
        *map(warn_of_undecided, card.undecided),
        "",
    ]
    rows = [("version", "stage", "since", "author", "digest", "")]
    for version in card.versions:
        flags = [f"paused: {version.paused}"] if version.paused else []
        if version.has_break_glass:
            flags.append("BREAK-GLASS")
        if version.is_undecided:
            flags.append("NOT DECIDED")
        rows.append(
            (
                version.version,
                version.stage,
                words.moment(version.since),
                version.author,
                short(version.digest),
                ", ".join(flags),
            )
        )
    return _join_lines([*lines, *align_columns(rows)])


def warn_of_undecided(note: str) -> str:
    """Return a note about events that this build cannot decide, as people must see it."""
    return f"NOT DECIDED: {note}; what rests on it does not serve"


def history_text(history: History) -> str:
    """Return what was live at a given time, and the events before it, newest first."""
    lines = [f"{history.asset}: {history.kind}, {history.risk} risk", ""]
    lines.append(f"at {words.moment(history.at)}")
    for live in history.live:
        lines.extend(f"  {line}" for line in live_lines(live))
    if not history.live:
        lines.append("  no version had left its draft")
    lines.append("")
    for event in history.lines:
        subject = f"{event.version} " if event.version else ""
        lines.append(
            f"{event.seq:>6}  {words.moment(event.at)}  {subject}{words.one_line(event.what)}"
            f"  by {event.actor}"
        )
        if event.approved_by:
            lines.append(f"        approved by {', '.join(event.approved_by)}")
        if event.result_ids:
            lines.append(f"        cites {', '.join(map(short, event.result_ids))}")
        if event.note:
            lines.append(f"        {words.one_line(event.note)}")
    if history.more_lines:
        lines.append(f"        {words.counted(history.more_lines, 'earlier event')} not shown")
    return _join_lines(lines)


def live_lines(live: Live) -> list[str]:
    """Return the lines on what served in one environment, and why."""
    lines = [f"{live.environment}: {live.version or 'nothing'} ({live.why})"]
    if live.since is not None:
        lines.append(f"  since {words.moment(live.since)}")
    if live.approved_by:
        lines.append(f"  approved by {', '.join(live.approved_by)}")
    if live.result_ids:
        lines.append(f"  cites {', '.join(map(short, live.result_ids))}")
    if live.canary is not None and live.canary_share is not None:
        lines.append(f"  canary {live.canary} at {live.canary_share:.0%}")
    if live.shadow:
        lines.append(f"  shadow {', '.join(live.shadow)}")
    return lines


def why_text(why: Why) -> str:
    """Return everything behind the stage of a version."""
    since = f" since {words.moment(why.since)}" if why.since else ""
    lines = [
        f"{why.asset}@{why.version} is {why.stage} in {why.environment}{since}",
        f"  author {why.author}, parent {why.parent or 'none'}, digest {short(why.digest)}",
    ]
    if why.is_one_person:
        lines.append(f"  {ONE_PERSON}")
    if why.paused:
        lines.append(f"  PAUSED: {words.one_line(why.paused)}")
    if why.break_glass:
        lines.append(f"  BREAK-GLASS: {words.one_line(why.break_glass)}")
    lines.extend(f"  {warn_of_undecided(note)}" for note in why.undecided)
    lines.extend(f"  PROBLEM: {words.one_line(problem)}" for problem in why.problems)
    lines.extend(["", "Results"])
    lines.extend(_format_citation(one) for one in why.citations)
    if not why.citations:
        lines.append("  none are cited in this stage")
    lines.extend(["", "Steps"])
    for step in why.steps:
        lines.extend(_format_step(step))
    if not why.steps:
        lines.append("  none yet")
    if why.votes:
        lines.extend(["", "Votes"])
        lines.extend(
            f"  {vote.actor}: {vote.decision} for {vote.stage}, {words.moment(vote.at)}, "
            + _vote_word(vote)
            + _format_through(vote.through)
            for vote in why.votes
        )
    if why.overrides:
        lines.extend(["", "Overridden"])
        lines.extend(f"  {words.one_line(line)}" for line in why.overrides)
    lines.extend(["", "Next", *(f"  {move}" for move in why.next_moves)])
    if not why.next_moves:
        lines.append("  nothing: this stage is an end")
    return _join_lines(lines)


def _format_through(through: str) -> str:
    return f" ({words.one_line(through)})" if through else ""


def _vote_word(vote: ShownVote) -> str:
    if vote.was_used:
        return "used"
    if vote.is_replaced:
        return "replaced by a later vote"
    word = "expired at" if vote.is_expired else "not used, counts until"
    return f"{word} {words.moment(vote.expires_at)}"


def _format_citation(one: Citation) -> str:
    if one.worth == "missing":
        return f"  {short(one.id)}  MISSING"
    when = f", {words.moment(one.sealed_at)}" if one.sealed_at else ""
    about = f"{one.verdict}  {one.pack} by {one.actor}{when}" if one.verdict else one.reason
    line = f"  {short(one.id)}  {one.worth}  {words.one_line(about)}"
    if one.worth != "verified" and one.verdict:
        line += f"\n    {words.one_line(one.reason)}"
    return f"{line}\n    {words.one_line(one.caveat)}" if one.caveat else line


def _format_step(step: ClimbStep) -> list[str]:
    lines = [
        f"  {step.before} → {step.after} ({step.cause}) by {step.actor}, "
        f"{words.moment(step.at)}, event {step.seq}{_format_through(step.through)}"
    ]
    if step.approved_by:
        lines.append(f"    approved by {', '.join(step.approved_by)}")
    if step.window_count:
        lines.append(f"    {words.counted(step.window_count, 'clean window')}")
    if step.note:
        lines.append(f"    {words.one_line(step.note)}")
    for gate in step.gates:
        passes = gate.state in ("fail", "unjudged") and not gate.blocks
        allowed = " (the policy lets it pass)" if passes else ""
        lines.append(f"    {gate.gate}: {gate.state}, {words.one_line(gate.reason)}{allowed}")
    return lines


def lines_of(result: CommandResult) -> list[str]:
    """Return what was written, one line per event with its number."""
    return [
        f"{_format_fact(fact)} (event {event.seq})"
        for fact, event in zip(result.facts, result.events, strict=True)
    ]


def _format_fact(fact: Fact) -> str:
    note = getattr(fact, "note", "")
    return f"{fact.label}: {fact.sentence}" + (f": {note}" if note else "")


def document_of(*several: CommandResult) -> dict[str, object]:
    """Return the JSON document of the results of some commands."""
    undecided = dict.fromkeys(note for result in several for note in result.undecided)
    return {
        **({"undecided": list(undecided)} if undecided else {}),
        "changed": any(result.is_change for result in several),
        "events": [
            {
                "seq": event.seq,
                "kind": event.kind,
                "at": event.at.isoformat(),
                "actor": event.actor,
                "digest": event.digest,
                "fact": msgspec.to_builtins(fact),
            }
            for result in several
            for fact, event in zip(result.facts, result.events, strict=True)
        ],
    }
