"""The formats of everything that is stored: their names, and how each may change.

A format is named ``FAMILY/VERSION``. Within a version only optional fields are added; anything
else is a new version with a reader for the old one. A document that names a version this build
does not know is not broken: this build cannot judge it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.ledger.event_kinds import KINDS

FORMAT: Final = "format"
"""The member of an event's payload that names its format."""
_NAME: Final = re.compile(r"(gatemark(?:\.[a-z][a-z0-9_-]*)+)/([1-9][0-9]{0,3})\Z")


class StoredFormat(msgspec.Struct, frozen=True):
    """One format: what it holds, where it stands, since which release, and how it is named."""

    name: str
    holds: str
    place: str
    since: str = "0.1.0"
    named_by: str = "`schema`"
    changes: str = "optional fields"


DOCUMENTS: Final = (
    StoredFormat(
        "gatemark.result/1", "a sealed result", "table `results`; `results/` of an export"
    ),
    StoredFormat(
        "gatemark.event/1",
        "one event of the ledger",
        "table `events`; `events.jsonl`",
        changes="nothing: its bytes are hashed as a fixed text",
    ),
    StoredFormat("gatemark.attribution/1", "a sealed attribution", "blob"),
    StoredFormat("gatemark.decision/1", "the decision that was attributed", "blob"),
    StoredFormat("gatemark.sample/1", "the answers of a suite, one per line", "blob"),
    StoredFormat("gatemark.vote/1", "the votes of a closed review, one per line", "blob"),
    StoredFormat(
        "gatemark.pack/1", "the pack of a result", "blob `pack.json`", named_by="`gatemark: 1`"
    ),
    StoredFormat(
        "gatemark.sitting/1",
        "how an exam was run, so that it can be run again",
        "blob `sitting.json`",
        named_by="`format`; missing means version 1",
    ),
    StoredFormat(
        "gatemark.release-policy/1",
        "a release policy, complete",
        "payload of `policy_changed`",
        named_by="`gatemark_release: 1`",
    ),
    StoredFormat(
        "gatemark.backup/1",
        "a whole store in one file",
        "written by `gatemark store backup`",
        since="0.2.0",
        named_by="`format` in `about.json`",
        changes="tables and columns of newer layouts",
    ),
    StoredFormat(
        "gatemark.review-key/1",
        "what a review's commitment covers",
        "hashed only",
        changes="nothing",
    ),
    StoredFormat(
        "gatemark.decision-statement/1",
        "a decision as an in-toto statement",
        "`decisions/` of an export",
        named_by="`predicateType` urn:gatemark:decision:v1",
        changes="nothing: statements are written again to check them",
    ),
    StoredFormat(
        "gatemark.result-statement/1",
        "a result as an in-toto statement",
        "`results/` of an export",
        named_by="`predicateType` test-result/v0.1",
        changes="nothing: statements are written again to check them",
    ),
)
"""Formats of stored documents. Event payloads have one format per kind of event."""

_FAMILIES: Final = {
    **{one.name.rpartition("/")[0]: 1 for one in DOCUMENTS},
    **{f"gatemark.event.{kind}": 1 for kind in KINDS},
}
"""The highest version of each family that this build can read; all below it, too."""


def payload_format(kind: str) -> str | None:
    """The format in which this build writes the payload of a kind; None for foreign kinds."""
    family = f"gatemark.event.{kind}"
    return f"{family}/{_FAMILIES[family]}" if family in _FAMILIES else None


def is_known(name: str) -> bool:
    """Whether this build can read a format."""
    match = _NAME.match(name)
    return match is not None and int(match[2]) <= _FAMILIES.get(match[1], 0)


def is_newer(name: str, known: str) -> bool:
    """Whether a name is that of a later version of a format that this build knows."""
    match = _NAME.match(name)
    is_same_family = match is not None and match[1] == known.rpartition("/")[0]
    return is_same_family and not is_known(name)


def is_format(name: object) -> bool:
    """Whether something has the form of a format's name, known or not."""
    return isinstance(name, str) and _NAME.match(name) is not None


def check_payload_format(kind: str, name: object) -> bool:
    """Whether this build can read a payload that names this format; None is version 1.

    Refuse a name that is not a format, or is that of another kind: no build writes that.
    """
    if name is None or name == payload_format(kind):
        return True
    match = _NAME.match(name) if isinstance(name, str) else None
    if match is None or match[1] != f"gatemark.event.{kind}":
        raise InvalidValueError(f"{name!r} is not a format of {kind}")
    return is_known(match[0])


def newer_format(name: str) -> str:
    """What to say about a format that this build does not know."""
    return f"has format {name}, which this build does not know: install a newer Gatemark"
