"""Labels that people give to samples: proposals by majority, and who may accept them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gatemark.core.canonical import digest
from gatemark.core.errors import IntegrityError, InvalidValueError
from gatemark.release.review.plan import Question, Reviewers, ReviewName, encode_document

Label = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\u0000-\u001f\u007f]+$")]
LabelField = Literal["label", "target"]

MAX_ITEMS: Final = 20_000


class LabelPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The labels of a set, who gives them, and where an accepted label is written.

    ``field`` is ``label`` for calibrating a judge (rows keep their output) and ``target`` for a
    golden set. ``source`` names the origin of the samples.
    """

    name: Annotated[ReviewName, Meta(description="Name of the set.")]
    labels: Annotated[
        tuple[Label, ...],
        Meta(
            min_length=2,
            max_length=256,
            description="Label that may be given.",
            extra={"flags": ("--label",), "metavar": "TEXT"},
        ),
    ]
    source: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=512,
            description="Origin of the samples.",
            extra={"flags": ("--source", "--origin"), "metavar": "TEXT"},
        ),
    ]
    field: Annotated[
        LabelField,
        Meta(
            description="Field of the accepted label: label for rows that calibrate a judge, "
            "target for a golden set."
        ),
    ] = "label"
    labels_per_item: Annotated[
        int, Meta(ge=1, le=100, description="Number of people who label each sample.")
    ] = 1
    reviewers: Reviewers = ()
    question: Question = "Which label fits?"

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels):
            raise InvalidValueError(f"labels must be different, got {', '.join(self.labels)}")

    @property
    def digest(self) -> str:
        """The digest of the plan."""
        return digest(self)


class LabelItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One sample to be labelled."""

    id: str
    input: object
    output: object

    def document(self) -> bytes:
        """Return the stored bytes."""
        return encode_document(self.id, self)


class LabelMark(msgspec.Struct, frozen=True):
    """The newest label that one reviewer gave to one item."""

    number: int
    reviewer: str
    version: int
    label: str
    note: str


class Acceptance(msgspec.Struct, frozen=True):
    """An accepted label; ``version`` grows when an item gets a different label."""

    number: int
    version: int
    label: str
    reviewers: tuple[str, ...]
    by: str
    at: str


class LabelProposal(msgspec.Struct, frozen=True):
    """The proposed label of an item, or the reason why there is none yet."""

    number: int
    label: str | None
    reviewers: tuple[str, ...]
    reason: str | None


def choose_next_item(
    reviewer: str, numbers: Sequence[int], marks: Sequence[LabelMark], labels_per_item: int
) -> int | None:
    """Return the reviewer's next item, in an order that differs between reviewers."""
    given = Counter(mark.number for mark in marks)
    own = {mark.number for mark in marks if mark.reviewer == reviewer}

    def luck(number: int) -> bytes:
        return hashlib.sha256(f"{reviewer}\x00{number}".encode()).digest()

    waiting = [n for n in numbers if n not in own and given[n] < labels_per_item]
    return min(waiting, key=luck, default=None)


def propose(plan: LabelPlan, number: int, marks: Sequence[LabelMark]) -> LabelProposal:
    """Return the label with strictly the most votes, once there are enough."""
    if len(marks) < plan.labels_per_item:
        reason = f"{len(marks)} of {plan.labels_per_item} labels"
        return LabelProposal(number, None, (), reason)
    ranked = Counter(mark.label for mark in marks).most_common()
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        tied = " and ".join(sorted(label for label, count in ranked if count == ranked[0][1]))
        return LabelProposal(number, None, (), f"no majority: {tied}")
    label = ranked[0][0]
    return LabelProposal(number, label, _list_givers(marks, label), None)


def settle(plan: LabelPlan, number: int, marks: Sequence[LabelMark], chosen: str) -> LabelProposal:
    """Return the label that an owner chose where reviewers disagree."""
    if chosen not in plan.labels:
        raise InvalidValueError(
            f"{chosen!r} is not a label of {plan.name}; expected one of {', '.join(plan.labels)}"
        )
    if not marks:
        return LabelProposal(number, None, (), "it has no labels yet")
    return LabelProposal(number, chosen, _list_givers(marks, chosen), None)


def is_own_work(proposal: LabelProposal, actor: str) -> bool:
    """Return whether the actor alone gave or chose the label, and so may not accept it."""
    return set(proposal.reviewers) <= {actor}


def encode_dataset(
    plan: LabelPlan, items: Mapping[int, LabelItem], accepted: Sequence[Acceptance]
) -> bytes:
    """Return the accepted labels as lines of a data set; the bytes are deterministic."""
    if any(acceptance.number not in items for acceptance in accepted):
        raise IntegrityError(
            f"label set {plan.name}: an accepted label belongs to no item of it; see "
            "'gatemark ledger verify'"
        )
    lines = []
    for acceptance in sorted(accepted, key=lambda one: items[one.number].id):
        item = items[acceptance.number]
        row: dict[str, object] = {"id": item.id, "input": item.input}
        if plan.field == "label":
            row["output"] = item.output
        row[plan.field] = acceptance.label
        row["label_source"] = plan.source
        row["label_reviewers"] = list(acceptance.reviewers)
        row["label_version"] = acceptance.version
        row["label_accepted_by"] = acceptance.by
        lines.append(msgspec.json.encode(row) + b"\n")
    return b"".join(lines)


def _list_givers(marks: Sequence[LabelMark], label: str) -> tuple[str, ...]:
    return tuple(sorted(mark.reviewer for mark in marks if mark.label == label))
