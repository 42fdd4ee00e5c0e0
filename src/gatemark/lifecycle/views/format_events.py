"""What a carried-out command is told in: one line per fact, and one JSON document."""

from __future__ import annotations

from typing import Any

import msgspec

from gatemark.lifecycle.journey import CommandResult
from gatemark.lifecycle.model.events import (
    ApprovalGiven,
    BreakGlassReviewed,
    BreakGlassUsed,
    ExamSet,
    Fact,
    GateOverridden,
    GateWaived,
    PolicyAdopted,
    RolesGranted,
    ServiceReported,
    VersionAdded,
    VersionMoved,
    VersionPaused,
    WatchClosed,
    WindowJudged,
    WindowPushed,
)


def lines_of(acted: CommandResult) -> list[str]:
    """What was written, one line per event with its number."""
    return [
        f"{sentence(fact)} (event {event.seq})"
        for fact, event in zip(acted.facts, acted.events, strict=True)
    ]


def document_of(*several: CommandResult) -> dict[str, Any]:
    """The JSON document of some carried-out commands."""
    return {
        "changed": any(acted.is_change for acted in several),
        "events": [
            {
                "seq": event.seq,
                "kind": event.kind,
                "at": event.at.isoformat(),
                "actor": event.actor,
                "digest": event.digest,
                "fact": msgspec.to_builtins(fact),
            }
            for acted in several
            for fact, event in zip(acted.facts, acted.events, strict=True)
        ],
    }


def sentence(fact: Fact) -> str:
    """A fact in one line."""
    match fact:
        case VersionMoved():
            note = f": {fact.note}" if fact.note else ""
            return f"{_name(fact)}: {fact.before} → {fact.after} ({fact.cause}{note})"
        case VersionAdded():
            return f"{_name(fact)}: added by {fact.author}, {fact.digest}"
        case ApprovalGiven():
            words = {"approve": "approved", "reject": "rejected", "abstain": "abstained"}
            until = f"{fact.expires_at:%Y-%m-%d %H:%MZ}"
            return f"{_name(fact)}: {words[fact.decision]} for {fact.stage}, counts until {until}"
        case VersionPaused():
            what = "resumed" if fact.reason is None else f"paused ({fact.reason})"
            return f"{_name(fact)}: {what}" + (f": {fact.note}" if fact.note else "")
        case WindowJudged():
            where = f"window {fact.start:%Y-%m-%d %H:%MZ} at {fact.stage}"
            return f"{_name(fact)}: {where} is {fact.state}: {'; '.join(fact.reasons)}"
        case WindowPushed():
            parts = len(fact.metrics) + len(fact.invariants)
            return f"{_name(fact)}: window {fact.start:%Y-%m-%d %H:%MZ}, {parts} measurements"
        case _:
            return _rarer(fact)


def _rarer(fact: Fact) -> str:
    match fact:
        case RolesGranted():
            return f"{fact.actor}: {', '.join(fact.roles) or 'no role any more'}"
        case PolicyAdopted():
            return f"release policy {fact.policy['name']}, {fact.policy_digest}"
        case ExamSet():
            return f"{fact.asset}: the full pack is {fact.exam.pack} v{fact.exam.version}"
        case GateWaived():
            return f"{_name(fact)}: {fact.gate} is waived until {fact.expires_at:%Y-%m-%d %H:%MZ}"
        case GateOverridden():
            return f"{_name(fact)}: {fact.gate} was overridden: {fact.reason}"
        case BreakGlassUsed():
            until = f"{fact.until:%Y-%m-%d %H:%MZ}"
            return f"{_name(fact)}: GLASS BROKEN for {fact.incident}, review it before {until}"
        case BreakGlassReviewed():
            return f"{_name(fact)}: the broken glass of {fact.incident} was reviewed"
        case WatchClosed():
            counts = f"{fact.clean_count} clean windows, {fact.other_count} others"
            return f"{_name(fact)}: the watch is over, {counts}"
        case ServiceReported():
            return f"{fact.asset}: {fact.good} of {fact.total} good to {fact.end:%Y-%m-%d %H:%MZ}"
        case _:
            return type(fact).__name__


def _name(fact: Any) -> str:
    return f"{fact.asset}@{fact.version}"
