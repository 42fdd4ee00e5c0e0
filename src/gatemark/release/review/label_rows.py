"""Compare the rows of a label set with its events. No I/O.

Each time labels are accepted, an event names the resulting data set. Each line of the data set has
an item with its label, version and names, and so fixes what the tables must hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from gatemark.core.canonical import digest
from gatemark.ledger.event import Event
from gatemark.ledger.port import Erasure
from gatemark.ledger.stored_rows import Finding, has_types, is_moment_of, make_finding, plain_json
from gatemark.release.review.cast_rows import GivenRow, digest_items, find_differences
from gatemark.release.review.sealed_rows import (
    ErasedContent,
    digest_stored_document,
    find_misplaced_erasures,
)

MARK_SCHEMA: Final = "gatemark.label-mark/1"


class ItemRow(NamedTuple):
    """A stored item, not decoded; the fields are its columns."""

    number: int
    id: str
    document: bytes

    def named(self, erasure: Erasure | None = None) -> tuple[int, str, str]:
        """Return number, id and digest of the item."""
        found, _ = digest_stored_document("item", self.number, self.document, erasure)
        return self.number, self.id, found


class AcceptanceRow(NamedTuple):
    """A stored accepted label; the fields are its columns."""

    number: int
    version: int
    label: str
    reviewers: str
    by: str
    at: str


class MarkRow(NamedTuple):
    """One stored version of a label; the fields are its columns, and what its event digests."""

    number: int
    reviewer: str
    version: int
    label: str
    note: str
    at: str

    def given(self, label_set: str) -> GivenRow:
        """Return the label as its event names it."""
        said: dict[str, object] = {"schema": MARK_SCHEMA, "labels": label_set, **self._asdict()}
        said["item"] = said.pop("number")
        return GivenRow(self.reviewer, self.number, self.version, digest(said))


class LabelRows(NamedTuple):
    """All stored rows of a label set."""

    name: str
    plan: bytes | None
    items: Sequence[ItemRow]
    accepted: Sequence[AcceptanceRow]
    marks: Sequence[MarkRow] = ()
    erased: Mapping[int, Erasure] = MappingProxyType({})


class AcceptedSet(NamedTuple):
    """An event about accepted labels, and its data set; None if the data set is missing."""

    event: Event
    payload: Mapping[str, object]
    data: bytes | None


class _Line(NamedTuple):
    """A line of a data set, and the first event that has it."""

    event: Event
    row: Mapping[str, object]


def compare_labels(
    rows: LabelRows,
    accepted_sets: Sequence[AcceptedSet],
    erased: ErasedContent,
    made: int,
) -> Iterator[Finding]:
    """Yield the differences between a label set and the accepted data sets.

    ``made`` is the number of the event that made the label set.
    """
    place = f"label set {rows.name}"
    last = accepted_sets[-1].event.seq if accepted_sets else None
    plan = None if rows.plan is None else plain_json(rows.plan)
    if not isinstance(plan, dict):
        what = "is missing" if rows.plan is None else "cannot be read"
        yield make_finding(last, "label_sets", f"{place} {what}")
        return
    for one in accepted_sets:
        if digest(plan) != one.payload.get("plan_digest"):
            yield make_finding(
                one.event.seq,
                "label_sets",
                f"{place}: its rules differ from those that labels were accepted by",
            )
    items = {}
    for row in rows.items:
        erasure = rows.erased.get(row.number)
        known, problem = digest_stored_document("item", row.number, row.document, erasure)
        if erasure is None and problem is None:
            problem = erased.problem(known, made, f"item:{rows.name}/{row.id}")
        if problem is not None:
            yield make_finding(last, "label_items", f"{place}: {problem}")
        item = plain_json(row.document) if erasure is None else erasure.said.remains
        if not isinstance(item, dict) or item.get("id") != row.id:
            what = f"column id of item {row.number} is {row.id!r}, which differs from its document"
            yield make_finding(last, "label_items", f"{place}: {what}")
        items[row.number] = item if isinstance(item, dict) else {}
    for number in sorted(rows.erased.keys() - items.keys()):
        what = f"event {rows.erased[number].event.seq} erases item {number}, which never was"
        yield make_finding(last, "label_items", f"{place}: {what}")
    # A missing data set is reported elsewhere; its content cannot be compared.
    if all(one.data is not None for one in accepted_sets):
        yield from _check_accepted(
            rows, items, _collect_lines(accepted_sets), str(plan.get("field", "label"))
        )


def compare_label_events(
    rows: LabelRows, created: tuple[Event, Mapping[str, object]], given: Mapping[GivenRow, int]
) -> Iterator[Finding]:
    """Yield the differences between a label set and the events of its items and labels."""
    place, (event, said) = f"label set {rows.name}", created
    if rows.plan is not None and digest(plain_json(rows.plan)) != said.get("plan_digest"):
        what = f"{place}: its rules differ from those recorded when it was made"
        yield make_finding(event.seq, "label_sets", what)
    for what in find_misplaced_erasures(rows.erased, event.seq):
        yield make_finding(event.seq, "label_items", f"{place}: {what}")
    named = (row.named(rows.erased.get(row.number)) for row in rows.items)
    if digest_items(named) != said.get("items_digest"):
        what = f"{place}: its items differ from those recorded when it was made"
        yield make_finding(event.seq, "label_items", what)
    for row in rows.marks:
        if not has_types(row, int, str, int, str, str, str):
            what = f"{place}: the row of {row.reviewer!r}, {row.number!r} cannot be read"
            yield make_finding(event.seq, "label_marks", what)
            return
    for seq, what in find_differences((row.given(rows.name) for row in rows.marks), given):
        yield make_finding(seq, "label_marks", f"{place}: label {what}")


def _collect_lines(accepted_sets: Sequence[AcceptedSet]) -> dict[tuple[str, int], _Line]:
    """Return every label that was ever accepted, by item and version."""
    lines: dict[tuple[str, int], _Line] = {}
    for one in accepted_sets:
        for text in (one.data or b"").splitlines():
            row = plain_json(text)
            if isinstance(row, dict):
                key = (str(row.get("id")), int(row.get("label_version", 0)))
                lines.setdefault(key, _Line(one.event, row))
    return lines


def _check_accepted(
    rows: LabelRows,
    items: Mapping[int, Mapping[str, object]],
    lines: dict[tuple[str, int], _Line],
    field: str,
) -> Iterator[Finding]:
    place = f"label set {rows.name}"
    for row in rows.accepted:
        item = items.get(row.number)
        line = None if item is None else lines.pop((str(item.get("id")), row.version), None)
        if item is None or line is None:
            what = f"{place}: item {row.number}, version {row.version}: no event accepts it"
            yield make_finding(None, "label_acceptances", what)
            continue
        seq, name = line.event.seq, f"{place}: item {item.get('id')}"
        for what in _check_acceptance(row, line, field):
            yield make_finding(seq, "label_acceptances", f"{name}: {what}")
        if row.number in rows.erased:
            continue
        shown = [key for key in ("input", "output") if key in line.row]
        if any(line.row[key] != item.get(key) for key in shown):
            yield make_finding(
                seq, "label_items", f"{name} differs from the item that was labelled"
            )
    known = {item.get("id") for item in items.values()}
    for (name, version), line in lines.items():
        if name not in known:
            yield make_finding(line.event.seq, "label_items", f"{place}: item {name} is missing")
        else:
            what = f"{place}: item {name}: version {version} of its label is missing"
            yield make_finding(line.event.seq, "label_acceptances", what)


def _check_acceptance(row: AcceptanceRow, line: _Line, field: str) -> Iterator[str]:
    said = line.row
    if row.label != said.get(field):
        yield f"has label {row.label!r}, {said.get(field)!r} was accepted"
    if plain_json(row.reviewers) != said.get("label_reviewers"):
        yield f"was given by {row.reviewers}, not by {said.get('label_reviewers')}"
    if row.by != said.get("label_accepted_by"):
        yield f"was accepted by {said.get('label_accepted_by')}, not by {row.by}"
    if not is_moment_of(row.at, line.event.at):
        yield f"was accepted at {line.event.at.isoformat()}, not at {row.at}"
