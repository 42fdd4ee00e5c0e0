"""What a command did, as lines of text and as one JSON document."""

from __future__ import annotations

from typing import Any

import msgspec

from gatemark.lifecycle.events.fact import Fact
from gatemark.lifecycle.journey import CommandResult


def lines_of(acted: CommandResult) -> list[str]:
    """What was written, one line per event with its number."""
    return [
        f"{_text(fact)} (event {event.seq})"
        for fact, event in zip(acted.facts, acted.events, strict=True)
    ]


def _text(fact: Fact) -> str:
    note = getattr(fact, "note", "")
    return f"{fact.label}: {fact.sentence}" + (f": {note}" if note else "")


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
