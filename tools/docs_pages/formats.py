"""The reference page of stored formats, made from the registry."""

from __future__ import annotations

from collections.abc import Iterator

from gatemark.core.formats import DOCUMENTS, payload_format
from gatemark.ledger.event_kinds import KINDS
from gatemark.lifecycle.decisions.rule_versions import RULE_BOOKS

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
    yield "| Kind of event | Format | Written when |"
    yield "|---|---|---|"
    for kind, when in KINDS.items():
        yield f"| `{kind}` | `{payload_format(kind)}` | {when} |"
    yield ""


def _rules() -> Iterator[str]:
    yield "## Rules of the lifecycle\n"
    yield "Every decision names the version of the rules that made it, in `decided_by`."
    yield "Decisions of 0.1.0 name none; they were made by version 1.\n"
    yield "| Rules | Since | `ledger verify` |"
    yield "|---|---|---|"
    for version, book in RULE_BOOKS.items():
        word = "recorded, not decided anew" if book.decide is None else "decides each act again"
        yield f"| {version} | {book.since} | {word} |"
    yield ""
