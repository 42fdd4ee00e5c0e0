"""The reference page of stored formats, made from the registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gatemark.ledger.event_kinds import event_kinds
from gatemark.lifecycle.decisions.decide import RULE_BOOKS


@dataclass(frozen=True)
class StoredFormat:
    """One format: what it holds, where it stands, since which release, and how it is named."""

    name: str
    holds: str
    place: str
    since: str = "0.1.0"
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

_OPENING = """\
# Formats

Everything that Gatemark stores has a format with a name: `FAMILY/VERSION`. Within a version only
optional fields are added. Any other change is a new version, and newer builds still read the old
one. A version that your build does not know gives exit 3 and names the version; it is never called
broken. [Decision 0024](../adr/0024-formats-of-what-is-sealed.md) has the rules for developers,
[Upgrade Gatemark](../how-to/upgrade.md) tells what to do with a store.
"""


def formats_page() -> str:
    """Every format, since when, and how it may change."""
    return "\n".join([_OPENING, *_documents(), *_payloads(), *_rules()]).rstrip() + "\n"


def _documents() -> Iterator[str]:
    yield "## Documents\n"
    yield "| Format | Holds | Stored in | Named by | Since | May change by |"
    yield "|---|---|---|---|---|---|"
    for one in DOCUMENTS:
        cells = (f"`{one.name}`", one.holds, one.place, one.named_by, one.since, one.changes)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _payloads() -> Iterator[str]:
    yield "## Event payloads\n"
    yield "Each payload names its format in the member `format`. A payload without it is version 1:"
    yield "0.1.0 did not write the name. All of them may gain optional fields.\n"
    yield "Where roles decide who may cause an event, they are named.\n"
    yield "| Kind of event | Format | Written when | Roles |"
    yield "|---|---|---|---|"
    for name, kind in sorted(event_kinds().items()):
        yield f"| `{name}` | `{kind.format}` | {kind.when} | {', '.join(kind.roles)} |"
    yield ""


def _rules() -> Iterator[str]:
    yield "## Rules of the lifecycle\n"
    yield "Every decision names the version of the rules that made it, in `decided_by`."
    yield "Decisions of 0.1.0 name none; they were made by version 1.\n"
    yield "| Rules | Since | `ledger verify` |"
    yield "|---|---|---|"
    for version, book in RULE_BOOKS.items():
        word = "recorded, not decided again" if book.decide is None else "decides each act again"
        yield f"| {version} | {book.since} | {word} |"
    yield ""
