"""The reference page of stored formats, made from the registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gatemark.ledger.event_kinds import LIFECYCLE_RULES, event_kinds


@dataclass(frozen=True)
class StoredFormat:
    """One format: what it holds, where it stands, and how it is named."""

    name: str
    holds: str
    place: str
    named_by: str = "`schema`"
    changes: str = "optional fields"


DOCUMENTS = (
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

_OPENING = """\
# Formats

Everything that Gatemark stores has a format with a name: `FAMILY/VERSION`. Within a version only
optional fields are added. Any other change is a new version, and newer builds still read the old
one. A version that your build does not know gives exit 3 and names the version; it is never called
broken. [Decision 12](../adr/0012-sealed-documents-are-checked-by-their-bytes.md) has the rules for
developers, [Upgrade Gatemark](../how-to/upgrade.md) tells what to do with a store.
"""


def formats_page() -> str:
    """Every format, and how it may change."""
    return "\n".join([_OPENING, *_documents(), *_payloads(), *_rules()]).rstrip() + "\n"


def _documents() -> Iterator[str]:
    yield "## Documents\n"
    yield "| Format | Holds | Stored in | Named by | May change by |"
    yield "|---|---|---|---|---|"
    for one in DOCUMENTS:
        cells = (f"`{one.name}`", one.holds, one.place, one.named_by, one.changes)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _payloads() -> Iterator[str]:
    yield "## Event payloads\n"
    yield "Each payload names its format in the member `format`. All of them may gain optional"
    yield "fields.\n"
    yield "Where roles decide who may cause an event, they are named.\n"
    yield "| Kind of event | Format | Written when | Roles |"
    yield "|---|---|---|---|"
    for name, kind in sorted(event_kinds().items()):
        yield f"| `{name}` | `{kind.format}` | {kind.when} | {', '.join(kind.roles)} |"
    yield ""


def _rules() -> Iterator[str]:
    yield "## Rules of the lifecycle\n"
    yield "Every decision names the version of the rules that made it, in `decided_by`."
    yield f"This build has version {LIFECYCLE_RULES.current}, and `ledger verify` decides each act"
    yield "of it again. A decision of another version is checked as recorded (bytes, chain,"
    yield "signatures) and reported as not decided again, with exit code 3; nothing new is decided"
    yield "on top of it. A version that was never released does not verify: exit code 4.\n"
