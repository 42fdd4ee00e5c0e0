"""Label sets as the caller may see them: samples to label, and labels to accept."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

import msgspec

from gatemark.accounts.identity import Identity
from gatemark.core.measurement import Measurement
from gatemark.core.request_fields import read_request
from gatemark.review.labelling import Acceptance, LabelItem, LabelMark, LabelPlan, propose
from gatemark.review.labels import (
    Accepted,
    AcceptLabels,
    GiveLabel,
    accept_labels,
    create_labels,
    give_label,
    label_status,
    next_sample,
)
from gatemark.review.open_stores import erased_items, label_sets_of
from gatemark.web.areas.ingest import write_temporary_files
from gatemark.web.areas.reviews import (
    JUDGES,
    names_after,
    normalize_newlines,
    require_judge,
    require_maker,
)
from gatemark.workspace import Workspace

OWNER: Final = "pack_owner"
SAMPLES: Final = "samples"
QUEUED_SETS: Final = 20


class LabelSetLine(msgspec.Struct, frozen=True, kw_only=True):
    """A label set in a list, and how much of it waits for the caller."""

    labels: str
    question: str
    source: str
    items: int
    accepted: int
    answered: int
    total: int
    waits: bool
    why_not: str | None


class LabelList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of label sets, newest first, and the cursor of the next page."""

    items: tuple[LabelSetLine, ...]
    next: str | None


class LabelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A label set; only owners, who accept labels, see the agreement of reviewers."""

    line: LabelSetLine
    choices: tuple[str, ...]
    field: str
    labels_per_item: int
    reviewers: tuple[str, ...]
    marks: int
    agreed: int
    agreement: tuple[Measurement, ...]
    may_accept: bool


class LabelQueueView(msgspec.Struct, frozen=True, kw_only=True):
    """The next sample of a reviewer, or None at the end; without the labels of others."""

    item: LabelItem | None
    answered: int
    total: int


class MarkLine(msgspec.Struct, frozen=True):
    """One version of a reviewer's label."""

    reviewer: str
    version: int
    label: str
    note: str
    at: datetime


class LabelRow(msgspec.Struct, frozen=True, kw_only=True):
    """An item with the labels that the caller may see, and the accepted one."""

    item: str
    number: int
    input: object
    output: object
    source: str
    marks: tuple[MarkLine, ...]
    proposal: str | None
    waits_for: str | None
    accepted: Acceptance | None
    erased: str | None = None
    """By whom, when and why the item was erased."""


class LabelPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of items in order, and the cursor of the next page."""

    items: tuple[LabelRow, ...]
    next: int | None


class GivenLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A stored label."""

    labels: str
    item: str
    label: str
    version: int


class LabelsMade(msgspec.Struct, frozen=True, kw_only=True):
    """A new label set."""

    labels: str
    items: int
    plan_digest: str


def label_list(
    workspace: Workspace, identity: Identity, *, after: str | None = None, limit: int = 50
) -> LabelList:
    """Return the label sets older than ``after``, newest first."""
    shown, more = names_after(label_sets_of(workspace).names(), after, limit, "label set")
    return LabelList(
        items=tuple(
            _make_line(workspace, identity, label_sets_of(workspace).get(name)) for name in shown
        ),
        next=more,
    )


def waiting_labels(
    workspace: Workspace, identity: Identity, limit: int
) -> tuple[LabelSetLine, ...]:
    """Return the newest label sets that wait for the caller."""
    names = label_sets_of(workspace).names()[:limit]
    lines = (_make_line(workspace, identity, label_sets_of(workspace).get(name)) for name in names)
    return tuple(line for line in lines if line.waits)


class QueueLine(msgspec.Struct, frozen=True, kw_only=True):
    """An input of an advisory lane that waits for people."""

    lane: str
    labels: str
    item: str
    state: str


class LaneQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs that wait for people, by lane; ``more`` are not listed."""

    lanes: dict[str, list[QueueLine]]
    more: int


def lane_queue(workspace: Workspace, identity: Identity, limit: int) -> LaneQueue:
    """Return the inputs of advisory lanes without an accepted label.

    Looks at the newest label sets. Nobody but an owner learns what others said.
    """
    stored = label_sets_of(workspace)
    found: dict[str, list[QueueLine]] = {}
    shown = total = 0
    for name in stored.names()[:QUEUED_SETS]:
        plan, accepted, marks = stored.get(name), stored.accepted(name), stored.marks(name)
        for number, item in sorted(stored.items(name, erased_items(workspace, name)).items()):
            if number in accepted or not isinstance(item.input, dict):
                continue
            lane = item.input.get("input_class")
            if not isinstance(lane, str) or "payload" not in item.input:
                continue
            total += 1
            if shown < limit:
                own = [mark for mark in marks if mark.number == number]
                state = _queue_state(plan, number, own, identity)
                line = QueueLine(lane=lane, labels=name, item=item.id, state=state)
                found.setdefault(lane, []).append(line)
                shown += 1
    return LaneQueue(lanes=dict(sorted(found.items())), more=total - shown)


def _queue_state(plan: LabelPlan, number: int, marks: list[LabelMark], identity: Identity) -> str:
    proposal = propose(plan, number, marks)
    if OWNER in identity.roles:
        return proposal.reason or f"{proposal.label}, waits for a pack_owner"
    if any(mark.reviewer == identity.person for mark in marks):
        return "you labelled it"
    return "waits for a label" if len(marks) < plan.labels_per_item else "waits for a pack_owner"


def label_card(workspace: Workspace, identity: Identity, name: str) -> LabelCard:
    """Return a label set as the caller may see it."""
    plan = label_sets_of(workspace).get(name)
    status = label_status(workspace, name)
    is_owner = OWNER in identity.roles
    return LabelCard(
        line=_make_line(workspace, identity, plan),
        choices=plan.labels,
        field=plan.field,
        labels_per_item=plan.labels_per_item,
        reviewers=plan.reviewers,
        marks=status.marks,
        agreed=status.agreed,
        agreement=status.agreement if is_owner else (),
        may_accept=is_owner,
    )


def label_queue_view(workspace: Workspace, identity: Identity, name: str) -> LabelQueueView:
    """Return the caller's next sample."""
    plan = label_sets_of(workspace).get(name)
    require_judge(identity, plan.reviewers)
    item = next_sample(workspace, name, identity.person)
    line = _make_line(workspace, identity, plan)
    return LabelQueueView(item=item, answered=line.answered, total=line.total)


def label(
    workspace: Workspace, identity: Identity, name: str, item: str, said: tuple[str, str]
) -> GivenLabel:
    """Store a label of the caller."""
    plan = label_sets_of(workspace).get(name)
    require_judge(identity, plan.reviewers)
    chosen, note = said
    request = GiveLabel(
        labels=name,
        reviewer=identity.person,
        item=item,
        label=chosen,
        note=normalize_newlines(note),
    )
    version = give_label(workspace, request)
    return GivenLabel(labels=name, item=item, label=chosen, version=version)


def make_labels(
    workspace: Workspace, identity: Identity, fields: dict[str, object], samples: str
) -> LabelsMade:
    """Create a label set from samples in the caller's name."""
    require_maker(identity, "make a label set")
    plan = read_request(LabelPlan, fields)
    with write_temporary_files({SAMPLES: samples}) as paths:
        count = create_labels(workspace.acting_as(identity.person), plan, paths[SAMPLES])
    return LabelsMade(labels=plan.name, items=count, plan_digest=plan.digest)


def accept_in_person(
    workspace: Workspace, identity: Identity, name: str, chosen: dict[str, str]
) -> Accepted:
    """Accept the labels with a majority, and chosen ones, in the caller's name."""
    request = AcceptLabels(labels=name, chosen=chosen)
    return accept_labels(workspace.acting_as(identity.person), request)


def label_rows(
    workspace: Workspace, identity: Identity, name: str, *, after: int = 0, limit: int = 50
) -> LabelPage:
    """Return items with all label versions: owners see everyone's, others only their own."""
    plan = label_sets_of(workspace).get(name)
    ids = label_sets_of(workspace).ids(name)
    numbers = sorted(number for number in ids.values() if number > after)
    shown = numbers[:limit]
    is_owner = OWNER in identity.roles
    newest: dict[int, list[LabelMark]] = {}
    for mark in label_sets_of(workspace).marks(name):
        newest.setdefault(mark.number, []).append(mark)
    history: dict[int, list[MarkLine]] = {}
    for mark, at in label_sets_of(workspace).history(name, shown):
        if is_owner or mark.reviewer == identity.person:
            line = MarkLine(mark.reviewer, mark.version, mark.label, mark.note, at)
            history.setdefault(mark.number, []).append(line)
    accepted = label_sets_of(workspace).accepted(name)
    erased = erased_items(workspace, name)
    rows = []
    for number in shown:
        item = label_sets_of(workspace).item(name, number, erased)
        proposal = propose(plan, number, newest.get(number, []))
        rows.append(
            LabelRow(
                item=item.id,
                number=number,
                input=item.input,
                output=item.output,
                source=plan.source,
                marks=tuple(history.get(number, ())),
                proposal=proposal.label if is_owner else None,
                waits_for=proposal.reason if is_owner and number not in erased else None,
                accepted=accepted.get(number),
                erased=erased[number].words if number in erased else None,
            )
        )
    return LabelPage(items=tuple(rows), next=shown[-1] if len(numbers) > limit else None)


def _make_line(workspace: Workspace, identity: Identity, plan: LabelPlan) -> LabelSetLine:
    name, person = plan.name, identity.person
    numbers = list(label_sets_of(workspace).ids(name).values())
    marks = label_sets_of(workspace).marks(name)
    answered = sum(mark.reviewer == person for mark in marks)
    why_not = None
    if plan.reviewers and person not in plan.reviewers:
        why_not = "others were named as reviewers"
    elif person not in plan.reviewers and not JUDGES & set(identity.roles):
        why_not = "your role does not allow judging"
    given = Counter(mark.number for mark in marks)
    own = {mark.number for mark in marks if mark.reviewer == person}
    free = sum(n not in own and given[n] < plan.labels_per_item for n in numbers)
    return LabelSetLine(
        labels=name,
        question=plan.question,
        source=plan.source,
        items=len(numbers),
        accepted=len(label_sets_of(workspace).accepted(name)),
        answered=answered,
        total=answered + (free if why_not is None else 0),
        waits=why_not is None and free > 0,
        why_not=why_not,
    )
