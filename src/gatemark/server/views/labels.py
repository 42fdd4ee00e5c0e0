"""Label sets: samples to label, labels to accept, and inputs of advisory lanes that wait."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Annotated, Final

import msgspec
from fastapi import Query, Response
from msgspec import Meta

from gatemark.core.measurement import Measurement
from gatemark.release.lifecycle.roles import EVALUATING
from gatemark.release.review.labelling import Acceptance, LabelItem, LabelMark, LabelPlan, propose
from gatemark.release.review.labels import (
    Accepted,
    AcceptLabels,
    GiveLabel,
    accept_labels,
    create_labels,
    give_label,
    label_status,
    next_sample,
    read_accepted_rows,
)
from gatemark.release.review.open_stores import erased_items, label_sets_of
from gatemark.release.review.who_may import is_judge
from gatemark.server.accounts.identity import Identity
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.parameters import Limit
from gatemark.server.render import back, part, show_content
from gatemark.server.request_body import FormFields
from gatemark.server.sent_files import write_temporary_files
from gatemark.server.views.reviews import REVIEW, After, names_after
from gatemark.workspace import Workspace

doors = Doors("labels", {"labels": REVIEW})
OWNER: Final = "pack_owner"
SAMPLES: Final = "samples"
QUEUED_SETS: Final = 20
SHOWN: Final = 50
QUEUED: Final = 200
EXCERPT: Final = 300


class SentLabels(LabelPlan, frozen=True, kw_only=True):
    """A label set over samples that come with the request."""

    samples: Annotated[str, Meta(description="Lines of gatemark.sample/1.")]


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
    item = next_sample(workspace, name, identity.person)
    line = _make_line(workspace, identity, plan)
    return LabelQueueView(item=item, answered=line.answered, total=line.total)


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
    elif not is_judge(identity.roles, person, plan.reviewers):
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


@doors.view("/labels", LabelList)
def list_labels(visit: Visit, after: After = None, limit: Limit = SHOWN) -> LabelList:
    """List label sets, newest first, with what waits for the caller."""
    return label_list(visit.workspace, visit.identity, after=after, limit=limit)


@list_labels.page("/labels", "labels.html", limit=SHOWN)
def labels_page(visit: Visit, document: LabelList) -> Context:
    """Show every label set, and what waits for the caller."""
    may_make = bool(EVALUATING & set(visit.identity.roles))
    return {"title": "Labels", "view": document, "may_make": may_make}


@doors.view("/review-queue", LaneQueue)
def get_queue(visit: Visit, limit: Limit = 50) -> LaneQueue:
    """List inputs of advisory lanes that wait for people, by lane."""
    return lane_queue(visit.workspace, visit.identity, limit)


@get_queue.page("/review-queue", "review_queue.html", limit=QUEUED)
def queue_page(document: LaneQueue) -> Context:
    """Show the inputs of advisory lanes that wait for people, by lane."""
    return {"title": "Review queue", "view": document}


@doors.page("/new-labels", "new_labels.html")
def new_labels_page() -> Context:
    """Show the form for a label set."""
    return {"title": "New label set", "plan": FormFields(SentLabels)}


@doors.act("/labels", LabelsMade, command=SentLabels, status=201)
def post_labels(visit: Visit, command: SentLabels) -> LabelsMade:
    """Create a label set."""
    plan = LabelPlan(**{name: getattr(command, name) for name in LabelPlan.__struct_fields__})
    with write_temporary_files({SAMPLES: command.samples}) as paths:
        count = create_labels(visit.acting, plan, paths[SAMPLES])
    return LabelsMade(labels=plan.name, items=count, plan_digest=plan.digest)


post_labels.form("/new-labels", to="/labels/{labels}", done="saved")


@doors.view("/labels/{labels}", LabelCard)
def one_label_set(visit: Visit, labels: str) -> LabelCard:
    """Return the progress of a label set."""
    return label_card(visit.workspace, visit.identity, labels)


@one_label_set.page("/labels/{labels}", "label.html")
def label_page(visit: Visit, labels: str, document: LabelCard) -> Context:
    """Show the next sample, or the progress of the set."""
    card = document
    found = None
    if not card.line.why_not:
        found = label_queue_view(visit.workspace, visit.identity, labels)
    item = None if found is None else found.item
    return {
        "title": f"Labels {labels}",
        "card": card,
        "item": item,
        "texts": None if item is None else (show_content(item.input), show_content(item.output)),
        "give": FormFields(GiveLabel),
    }


@doors.view("/labels/{labels}/next", LabelQueueView, in_person=True)
def get_next_item(visit: Visit, labels: str) -> LabelQueueView:
    """Return the caller's next sample; null at the end."""
    return label_queue_view(visit.workspace, visit.identity, labels)


@doors.act("/labels/{labels}/marks", GivenLabel, command=GiveLabel, is_repeatable=True)
def post_mark(visit: Visit, command: GiveLabel) -> GivenLabel:
    """Give a label; every version is kept. Needs a session."""
    version = give_label(visit.workspace, command)
    return GivenLabel(
        labels=command.labels, item=command.item, label=command.label, version=version
    )


post_mark.form("/labels/{labels}", to="/labels/{labels}")


@doors.view("/labels/{labels}/items", LabelPage)
def list_items(
    visit: Visit,
    labels: str,
    after: Annotated[int, Query(ge=0, le=2**31)] = 0,
    limit: Limit = 50,
) -> LabelPage:
    """List items with their labels: owners see everyone's, others their own."""
    return label_rows(visit.workspace, visit.identity, labels, after=after, limit=limit)


@doors.page("/labels/{labels}/items")
def items_page(visit: Visit, labels: str, after: int = 0) -> Response:
    """Show items and the versions of their labels; owners accept here."""
    return _show_items(visit, labels, after=max(0, after))


def _show_items(
    visit: Visit, labels: str, *, after: int = 0, waiting: dict[str, str] | None = None
) -> Response:
    rows = label_rows(visit.workspace, visit.identity, labels, after=after, limit=SHOWN)
    context = {
        "title": f"Labels {labels}",
        "card": label_card(visit.workspace, visit.identity, labels),
        "view": rows,
        "texts": {
            row.number: (show_content(row.input)[:EXCERPT], show_content(row.output)[:EXCERPT])
            for row in rows.items
        },
        "waiting": list((waiting or {}).items())[:SHOWN],
        "accept": FormFields(AcceptLabels),
    }
    return visit.show("label_items.html", context)


@doors.act("/labels/{labels}/acceptance", Accepted, command=AcceptLabels)
def post_acceptance(visit: Visit, command: AcceptLabels) -> Accepted:
    """Accept the labels with a majority, and chosen ones. For pack owners; needs a session."""
    return accept_labels(visit.acting, command)


@post_acceptance.form_page("/labels/{labels}/items")
def accept_post(visit: Visit, labels: str, document: Accepted) -> Response:
    """Return to the items; show why if nothing was accepted."""
    if document.open and not document.accepted_count:
        return _show_items(visit, labels, waiting=document.open)
    done = "accepted" if document.accepted_count else "nothing"
    return back(f"/labels/{part(labels)}/items", done)


@doors.view("/labels/{labels}/dataset", bytes)
def get_dataset(visit: Visit, labels: str) -> Response:
    """Return the accepted labels as a data set; its digest is in the ledger."""
    rows = read_accepted_rows(visit.workspace, labels)
    return Response(rows, media_type="application/x-ndjson")


@get_dataset.page("/labels/{labels}/dataset")
def dataset_file(labels: str, document: Response) -> Response:
    """Return the accepted labels as a file."""
    document.headers["Content-Disposition"] = f'attachment; filename="{part(labels)}.jsonl"'
    return document
