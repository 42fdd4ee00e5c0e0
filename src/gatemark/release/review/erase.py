"""Which pair of a review or item of a label set to erase, and what is left of it."""

from __future__ import annotations

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import UnknownNameError, UsageError
from gatemark.ledger.erase import ErasureReport, StoredDocument, make_tombstone
from gatemark.release.review.events import LABELS_ACCEPTED
from gatemark.release.review.open_stores import (
    erased_items,
    erased_pairs,
    label_sets_of,
    reviews_of,
)
from gatemark.release.review.stores.tables import LABEL_ITEMS, PAIRS
from gatemark.workspace import Workspace


def find_stored_text(workspace: Workspace, what: str) -> StoredDocument:
    """The document that ``pair:REVIEW/NUMBER`` or ``item:LABELS/ID`` names."""
    kind, _, named = what.partition(":")
    name, slash, which = named.partition("/")
    if not (slash and name and which):
        form = "pair:REVIEW/NUMBER" if kind == "pair" else "item:LABELS/ID"
        raise UsageError(f"{what!r} names no {kind}; expected {form}")
    workspace.existing_store()
    return (_pair if kind == "pair" else _find_item)(workspace, name, which)


def _pair(workspace: Workspace, name: str, which: str) -> StoredDocument:
    stored = reviews_of(workspace)
    review = stored.get(name)
    erased = erased_pairs(workspace, name)
    pairs = stored.pairs(name, erased)
    numbers = [number for number, pair in pairs.items() if which in (str(number), pair.item)]
    if not numbers:
        raise UnknownNameError(
            f"review {name} has no pair {which!r}; it has the numbers 1 to {len(pairs)}"
        )
    if len(numbers) > 1:
        found = ", ".join(map(str, numbers))
        raise UsageError(f"review {name} has several pairs {which!r}: give one of {found}")
    (number,) = numbers
    pair, document = pairs[number], stored.document(name, number) or b""
    removed = "the question and both answers"
    if review.closing is None:
        removed += "; nobody can vote on it any more"
    report = ErasureReport(
        what=f"pair {number} of review {name} (item {pair.item})",
        removed=(f"{len(document)} bytes: {removed}",),
        stays=("number, item, arms and votes",),
        may_hold=("the files or sealed answers that the review was made from",),
    )
    remains = msgspec.to_builtins(pair)
    for text in ("input", "answers"):
        del remains[text]
    said = make_tombstone("pair", name, number, digest_bytes(document), remains)
    row = {"review": name, "number": number}
    return StoredDocument(PAIRS, row, f"review:{name}", said, report)


def _find_item(workspace: Workspace, name: str, which: str) -> StoredDocument:
    stored = label_sets_of(workspace)
    stored.get(name)
    number = stored.ids(name).get(which)
    if number is None:
        raise UnknownNameError(f"label set {name} has no item {which!r}")
    document = stored.document(name, number)
    held = [
        f"blob {payload['dataset_digest']} (labels accepted in event {event.seq})"
        for event, payload in workspace.events.events(
            kind=LABELS_ACCEPTED, subject=f"labels:{name}"
        )
        if payload is not None and workspace.blobs.has(str(payload["dataset_digest"]))
    ]
    is_accepted = number in stored.accepted(name) and number not in erased_items(workspace, name)
    again = "; accept the labels again for a data set without it" if is_accepted else ""
    report = ErasureReport(
        what=f"item {which} of label set {name}",
        removed=(f"{len(document)} bytes: its input and output",),
        stays=(f"its id, labels and notes{again}",),
        may_hold=(*dict.fromkeys(held), "the file that the label set was made from"),
    )
    said = make_tombstone("item", name, number, digest_bytes(document), {"id": which})
    row = {"label_set": name, "number": number}
    return StoredDocument(LABEL_ITEMS, row, f"labels:{name}", said, report)
