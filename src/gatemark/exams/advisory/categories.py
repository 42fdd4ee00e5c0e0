"""How a recommendation is compared with its reference: buckets, severities, labels, categories.

Pure functions over plain values, shared by the harness that writes records and the exam that
scores them, so that the two cannot disagree by accident.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.exams.advisory.decision import (
    ERROR_CATEGORIES,
    Bucket,
    Comparison,
    ErrorType,
    ReferenceSource,
    Severity,
)

Category = Literal[
    "agree",
    "disagree",
    "false_positive",
    "false_negative",
    "severity_overcall",
    "severity_undercall",
    "uncertain",
    "missing_reference",
    "not_applicable",
]
LabelKind = Literal["no_op", "action", "deferred"]

CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)
COMPARABLE: Final[tuple[Category, ...]] = CATEGORIES[:6]
"""The six categories that make up the denominator of the agreement rate."""
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
HIGH_SEVERITIES: Final[frozenset[str]] = frozenset(("high", "critical"))
UNCERTAIN_BUCKETS: Final[frozenset[str]] = frozenset(("very_low", "low", "unknown"))
_RANK: Final = {severity: rank for rank, severity in enumerate(SEVERITIES)}


class Taxonomy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the labels of a lane mean. A label in none of the three kinds is refused.

    ``aliases`` maps a label to the one it is compared as.
    """

    no_op: tuple[str, ...] = ("suppress", "no_action", "log", "skip_private_root")
    action: tuple[str, ...] = ("escalate", "retrieve_more_context", "summarize")
    deferred: tuple[str, ...] = ("needs_human", "unknown")
    aliases: dict[str, str] = {}

    def __post_init__(self) -> None:
        known = self.labels
        twice = sorted({label for label in known if known.count(label) > 1})
        if twice:
            raise InvalidValueError(f"label {twice[0]!r} has more than one meaning")
        if not (self.no_op and self.action and self.deferred):
            raise InvalidValueError("a taxonomy needs no_op, action and deferred labels")
        for alias, label in self.aliases.items():
            if label not in known:
                raise InvalidValueError(
                    f"alias {alias!r} stands for {label!r}, which has no meaning"
                )
            if alias in known:
                raise InvalidValueError(f"label {alias!r} has a meaning and is an alias too")

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label with a meaning of its own."""
        return (*self.no_op, *self.action, *self.deferred)

    def knows(self, label: str) -> bool:
        """Whether a label may be used in the lane."""
        return label in self.aliases or label in self.labels

    def normal(self, label: str) -> str:
        """The label that this one is compared as."""
        return self.aliases.get(label, label)

    def kind(self, label: str) -> LabelKind:
        """What a label means."""
        normal = self.normal(label)
        if normal in self.no_op:
            return "no_op"
        if normal in self.action:
            return "action"
        if normal in self.deferred:
            return "deferred"
        raise InvalidValueError(f"a label must be one of {', '.join(self.labels)}")


DEFAULT_TAXONOMY: Final = Taxonomy()


class CategoryKey(msgspec.Struct, frozen=True, gc=False):
    """All that the category of a record depends on."""

    label: str
    severity: Severity
    bucket: Bucket
    reference_source: ReferenceSource
    reference_label: str | None
    reference_severity: Severity | None
    applicable: bool


def is_applicable(source_kind: str, mode: str) -> bool:
    """Whether there is anything to compare; a health probe recommends nothing."""
    return source_kind != "service_health_probe" and mode != "health_only"


def category_of(parts: CategoryKey, taxonomy: Taxonomy = DEFAULT_TAXONOMY) -> Category:
    """The one category of a record.

    An Atlas decision is a signal and no ground truth: such a record has no reference, and
    ``signal_of`` says what the signal would make of it.
    """
    if parts.applicable and parts.reference_source == "atlas_shadow":
        return "missing_reference"
    return signal_of(parts, taxonomy)


def signal_of(parts: CategoryKey, taxonomy: Taxonomy = DEFAULT_TAXONOMY) -> Category:
    """The category by the reference of the record, an Atlas decision included."""
    if not parts.applicable:
        return "not_applicable"
    if parts.reference_source == "missing" or parts.reference_label is None:
        return "missing_reference"
    kind = taxonomy.kind(parts.label)
    reference_kind = taxonomy.kind(parts.reference_label)
    if parts.bucket in UNCERTAIN_BUCKETS or kind == "deferred":
        return "uncertain"
    if taxonomy.normal(parts.label) != taxonomy.normal(parts.reference_label):
        if (kind, reference_kind) == ("action", "no_op"):
            return "false_positive"
        if (kind, reference_kind) == ("no_op", "action"):
            return "false_negative"
        return "disagree"
    if parts.reference_severity is None:
        return "agree"
    apart = _RANK[parts.severity] - _RANK[parts.reference_severity]
    if abs(apart) <= 1:
        return "agree"
    return "severity_overcall" if apart > 0 else "severity_undercall"


def outcome_of(category: Category) -> tuple[Comparison, ErrorType | None]:
    """How a record states its category: the comparison, and the error type that names an error."""
    match category:
        case "false_positive" | "false_negative" | "severity_overcall" | "severity_undercall":
            return "disagree", category
        case _:
            return category, None


def is_stated(category: Category, comparison: str, error_type: str | None) -> bool:
    """Whether an outcome states this category.

    An error type of another kind (say ``unsafe_authority``) may stand in the place of the one
    that names the category: a record has room for one.
    """
    wanted, named = outcome_of(category)
    if comparison != wanted:
        return False
    return error_type == named or (error_type is not None and error_type not in ERROR_CATEGORIES)


def lane_name(input_class: str, service: str) -> str:
    """The name of a lane: its kind of input and its service."""
    return f"{input_class}/{service}"
