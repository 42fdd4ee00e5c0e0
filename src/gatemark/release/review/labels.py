"""Commands for human labels: create a set, give labels, accept them, and export them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from gatemark.core.canonical import digest_bytes, same_digest
from gatemark.core.errors import (
    BadInputError,
    IntegrityError,
    InvalidValueError,
    RefusedError,
    UnknownNameError,
    UsageError,
)
from gatemark.core.measurement import Measurement
from gatemark.core.text import check_words
from gatemark.evidence.measures import measures
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.ledger.event import EventDraft, moment_text
from gatemark.ledger.port import GONE, Erasure
from gatemark.release.lifecycle.decisions.decision import require_role
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.release.review.cast_rows import (
    GivenRow,
    build_given_payload,
    digest_items,
    read_promised,
    require_given,
)
from gatemark.release.review.create import append_event
from gatemark.release.review.events import LABEL_GIVEN, LABELS_ACCEPTED, LABELS_CREATED
from gatemark.release.review.items import read_answers
from gatemark.release.review.label_rows import ItemRow
from gatemark.release.review.labelling import (
    MAX_ITEMS,
    Acceptance,
    Label,
    LabelItem,
    LabelMark,
    LabelPlan,
    LabelProposal,
    choose_next_item,
    encode_dataset,
    is_own_work,
    propose,
    settle,
)
from gatemark.release.review.open_stores import erased_items, label_sets_of, refuse_erased
from gatemark.release.review.plan import Said, require_named
from gatemark.release.review.who_may import require_judge, require_maker
from gatemark.workspace import Workspace

ItemId = Annotated[str, Meta(min_length=1, max_length=4096)]


class GiveLabel(msgspec.Struct, frozen=True, kw_only=True):
    """Label a sample; every version is stored."""

    labels: str
    actor: str
    item: Annotated[
        ItemId, Meta(description="Id of the sample.", extra={"metavar": "ITEM", "is_exact": True})
    ]
    label: Annotated[Label, Meta(description="One of the labels.", extra={"metavar": "LABEL"})]
    note: Said = ""
    is_in_person: ClassVar[bool] = True


class AcceptLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Accept the labels with a majority, and those that the owner chose."""

    labels: str
    chosen: Annotated[
        dict[ItemId, Label],
        Meta(
            max_length=1000,
            description="Label of a sample that reviewers disagree on.",
            extra={"flags": ("--choose",), "metavar": "ITEM=LABEL"},
        ),
    ] = {}
    is_in_person: ClassVar[bool] = True


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted labels, and the items that were not accepted, with the reason."""

    labels: str
    accepted_count: int
    in_all_count: int
    dataset_digest: str | None
    open: dict[str, str]


class LabelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a label set. ``open`` says what each unaccepted item waits for."""

    labels: str
    items: int
    marks: int
    agreed: int
    accepted: int
    reviewers: dict[str, int]
    agreement: tuple[Measurement, ...]
    open: dict[str, str]


def create_labels(workspace: Workspace, plan: LabelPlan, path: str) -> int:
    """Create a label set from a file of samples and return the number of items."""
    require_maker(workspace, "make a label set")
    answers = read_answers(path, ReadingChoices())
    items = [
        LabelItem(id=name, input=answer.input, output=answer.output)
        for name, answer in answers.items()
    ]
    if plan.field == "label":
        items = [item for item in items if item.output is not None]
    if not items:
        raise BadInputError(f"{path}: contains no sample with an output to label")
    for item in items:
        check_words(item.id, "an id")
    if len(items) > MAX_ITEMS:
        raise InvalidValueError(f"a label set holds at most {MAX_ITEMS} items, got {len(items)}")
    rows = [ItemRow(number, one.id, one.document()) for number, one in enumerate(items, start=1)]
    refuse_erased(workspace, "item", {digest_bytes(row.document): row.id for row in rows})
    now = workspace.clock()
    payload = {
        "labels": plan.name,
        "plan_digest": plan.digest,
        "items_digest": digest_items(row.named() for row in rows),
        "item_count": len(rows),
    }
    draft = EventDraft(LABELS_CREATED, now, workspace.actor, _name_subject(plan.name), payload)
    label_sets_of(workspace).create(
        plan,
        rows,
        by=workspace.actor,
        at=now,
        tell=lambda connection: append_event(workspace, connection, draft),
    )
    return len(rows)


def next_sample(workspace: Workspace, name: str, reviewer: str) -> LabelItem | None:
    """Return the next sample of a reviewer, without the labels of others."""
    plan = label_sets_of(workspace).get(name)
    _require_reviewer(workspace, plan, reviewer)
    erased = erased_items(workspace, name)
    numbers = [one for one in label_sets_of(workspace).ids(name).values() if one not in erased]
    number = choose_next_item(
        reviewer, numbers, label_sets_of(workspace).marks(name), plan.labels_per_item
    )
    return None if number is None else label_sets_of(workspace).item(name, number, erased)


def give_label(workspace: Workspace, request: GiveLabel) -> int:
    """Store a label, or a changed one; return its version."""
    plan = label_sets_of(workspace).get(request.labels)
    _require_reviewer(workspace, plan, request.actor)
    if request.label not in plan.labels:
        raise UsageError(
            f"{request.label!r} is not a label of {plan.name}; expected one of "
            f"{', '.join(plan.labels)}"
        )
    check_words(request.note, "a note")
    number = _find_number(workspace, request.labels, request.item)
    erasure = erased_items(workspace, request.labels).get(number)
    if erasure is not None:
        raise RefusedError(f"item {request.item} was {erasure.words}; label the next one")
    mark = LabelMark(number, request.actor, 0, request.label, request.note)
    now = workspace.clock()

    def tell(connection: sa.Connection, row: GivenRow) -> None:
        payload = build_given_payload(request.labels, row)
        subject = _name_subject(request.labels)
        draft = EventDraft(LABEL_GIVEN, now, request.actor, subject, payload)
        append_event(workspace, connection, draft)

    return label_sets_of(workspace).mark(request.labels, mark, now, tell)


def _require_reviewer(workspace: Workspace, plan: LabelPlan, reviewer: str) -> None:
    require_judge(workspace, reviewer, plan.reviewers)
    require_named(reviewer, plan.name, plan.reviewers)


def label_status(workspace: Workspace, name: str) -> LabelStatus:
    """Return the progress of a set, and how well reviewers agree."""
    plan = label_sets_of(workspace).get(name)
    ids = label_sets_of(workspace).ids(name)
    marks = label_sets_of(workspace).marks(name)
    accepted = label_sets_of(workspace).accepted(name)
    proposals = _propose_labels(plan, ids, marks, {})
    erased = erased_items(workspace, name)
    return LabelStatus(
        labels=name,
        items=len(ids),
        marks=len(marks),
        agreed=sum(proposal.label is not None for proposal in proposals.values()),
        accepted=len(accepted),
        reviewers=dict(sorted(Counter(mark.reviewer for mark in marks).items())),
        agreement=_measure_agreement(marks),
        open={
            item: GONE if number in erased else proposals[number].reason or "waits for a pack_owner"
            for item, number in ids.items()
            if number not in accepted
        },
    )


def accept_labels(workspace: Workspace, request: AcceptLabels) -> Accepted:
    """Accept labels with a majority. The actor must be a pack_owner, and not their only giver."""
    name = request.labels
    plan = label_sets_of(workspace).get(name)
    require_role(
        read_state(workspace, "*").governance, workspace.actor, ("pack_owner",), "accept labels"
    )
    _require_given(workspace, name)
    ids = label_sets_of(workspace).ids(name)
    for item in request.chosen:
        _find_number(workspace, name, item)
    before = label_sets_of(workspace).accepted(name)
    proposals = _propose_labels(plan, ids, label_sets_of(workspace).marks(name), request.chosen)
    now = workspace.clock()
    fresh: list[Acceptance] = []
    waiting: dict[str, str] = {}
    erased = erased_items(workspace, name)
    for item, number in ids.items():
        proposal, known = proposals[number], before.get(number)
        if number in erased:
            continue
        if proposal.label is None:
            if known is None:
                waiting[item] = str(proposal.reason)
        elif known is not None and known.label == proposal.label:
            continue
        elif is_own_work(proposal, workspace.actor):
            waiting[item] = (
                f"only {workspace.actor} gave this label; another reviewer must give it too"
            )
        else:
            version = 1 if known is None else known.version + 1
            fresh.append(
                Acceptance(
                    number=number,
                    version=version,
                    label=proposal.label,
                    reviewers=proposal.reviewers,
                    by=workspace.actor,
                    at=moment_text(now),
                )
            )
    after = _drop_erased(before, erased) | {one.number: one for one in fresh}
    dataset = None
    data = encode_dataset(plan, label_sets_of(workspace).items(name, erased), list(after.values()))
    # Once an accepted item was erased, the data set is another one, without it.
    is_smaller = bool(erased.keys() & before.keys()) and bool(after)
    if fresh or (is_smaller and not _is_accepted(workspace, name, data)):
        dataset = workspace.blobs.put(data)
        payload = {
            "labels": name,
            "plan_digest": plan.digest,
            "dataset_digest": dataset,
            "accepted_count": len(fresh),
            "in_all_count": len(after),
        }
        draft = EventDraft(LABELS_ACCEPTED, now, workspace.actor, _name_subject(name), payload)
        label_sets_of(workspace).accept(
            name, fresh, before, lambda connection: append_event(workspace, connection, draft)
        )
    return Accepted(
        labels=name,
        accepted_count=len(fresh),
        in_all_count=len(after),
        dataset_digest=dataset,
        open=waiting,
    )


def read_accepted_rows(workspace: Workspace, name: str) -> bytes:
    """Return the accepted labels as a data set, after checking them against the ledger."""
    plan = label_sets_of(workspace).get(name)
    accepted = label_sets_of(workspace).accepted(name)
    if not accepted:
        raise RefusedError(
            f"no label of {name} is accepted yet; a pack_owner accepts them with "
            "'gatemark review labels accept'"
        )
    erased = erased_items(workspace, name)
    left = list(_drop_erased(accepted, erased).values())
    data = encode_dataset(plan, label_sets_of(workspace).items(name, erased), left)
    if _is_accepted(workspace, name, data):
        return data
    for number in sorted(erased.keys() & accepted.keys()):
        item = erased[number].said.remains.get("id")
        raise RefusedError(
            f"item {item} was {erased[number].words}; a pack_owner must accept the labels again, "
            "without it: 'gatemark review labels accept'"
        )
    raise IntegrityError(f"label set {name} differs from what the ledger says was accepted")


def _drop_erased(
    accepted: Mapping[int, Acceptance], erased: Mapping[int, Erasure]
) -> dict[int, Acceptance]:
    """Accepted labels of items that were not erased."""
    return {number: one for number, one in accepted.items() if number not in erased}


def _is_accepted(workspace: Workspace, name: str, data: bytes) -> bool:
    """Whether the last acceptance in the ledger is of this data set."""
    digest = ""
    for _, payload in workspace.events.events(kind=LABELS_ACCEPTED, subject=_name_subject(name)):
        if payload is not None:
            digest = str(payload["dataset_digest"])
    return same_digest(digest_bytes(data), digest)


def _require_given(workspace: Workspace, name: str) -> None:
    """Refuse labels that differ from their events."""
    subject = _name_subject(name)
    promised_rows = read_promised(workspace.events.events(kind=LABEL_GIVEN, subject=subject))
    require_given(f"label set {name}", label_sets_of(workspace).given(name), promised_rows)


def _name_subject(name: str) -> str:
    return f"labels:{name}"


def _propose_labels(
    plan: LabelPlan, ids: dict[str, int], marks: list[LabelMark], chosen: dict[str, str]
) -> dict[int, LabelProposal]:
    of_item: dict[int, list[LabelMark]] = {}
    for mark in marks:
        of_item.setdefault(mark.number, []).append(mark)
    return {
        number: settle(plan, number, of_item.get(number, []), chosen[item])
        if item in chosen
        else propose(plan, number, of_item.get(number, []))
        for item, number in ids.items()
    }


def _measure_agreement(marks: list[LabelMark]) -> tuple[Measurement, ...]:
    people = sorted({mark.reviewer for mark in marks})
    if len(people) < 2 or "krippendorff" not in measures():
        return ()
    of_item: dict[int, dict[str, str]] = {}
    for mark in marks:
        of_item.setdefault(mark.number, {})[mark.reviewer] = mark.label
    measure = measures().get("krippendorff")
    rows = [tuple(given.get(person) for person in people) for given in of_item.values()]
    return measure.finish(measure.step(measure.zero(), rows))


def _find_number(workspace: Workspace, name: str, item: str) -> int:
    ids = label_sets_of(workspace).ids(name)
    if item not in ids:
        raise UnknownNameError(f"{name} lacks item {item!r}")
    return ids[item]
