"""The category of a record: how its recommendation compares with its reference."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from gatemark.plugins.advisory.record import (
    ERROR_CATEGORIES,
    Bucket,
    ComparisonError,
    ComparisonWord,
    ErrorType,
    InputSource,
    Mode,
    Recommendation,
    Reference,
    ReferenceSource,
    Severity,
    SourceKind,
)
from gatemark.plugins.advisory.taxonomy import DEFAULT_TAXONOMY, Taxonomy

Category = Literal[
    "agree", "disagree", ComparisonError, "uncertain", "missing_reference", "not_applicable"
]
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)
COMPARABLE: Final[tuple[Category, ...]] = CATEGORIES[:6]
"""The six categories that make up the denominator of the agreement rate."""
SEVERITY_ORDER: Final[tuple[Severity, ...]] = get_args(Severity)
HIGH_SEVERITIES: Final[frozenset[str]] = frozenset(("high", "critical"))
UNCERTAIN_BUCKETS: Final[frozenset[str]] = frozenset(("very_low", "low", "unknown"))
_RANK: Final = {severity: rank for rank, severity in enumerate(SEVERITY_ORDER)}


class CategoryKey(msgspec.Struct, frozen=True, gc=False, array_like=True, cache_hash=True):
    """Everything that the category of a record depends on."""

    label: str
    severity: Severity
    bucket: Bucket
    reference_source: ReferenceSource
    reference_label: str | None
    reference_severity: Severity | None
    applicable: bool


def is_applicable(source_kind: SourceKind, mode: Mode) -> bool:
    """Whether there was an input to recommend for; a health probe has none."""
    return source_kind != "service_health_probe" and mode != "health_only"


def make_category_key(
    source: InputSource, mode: Mode, advice: Recommendation, bucket: Bucket, reference: Reference
) -> CategoryKey:
    """Return what the category of a record depends on."""
    return CategoryKey(
        label=advice.label,
        severity=advice.severity,
        bucket=bucket,
        reference_source=reference.source,
        reference_label=reference.label or None,
        reference_severity=reference.severity or None,
        applicable=is_applicable(source.kind, mode),
    )


def categorize(parts: CategoryKey, taxonomy: Taxonomy = DEFAULT_TAXONOMY) -> Category:
    """Return the category of a record.

    An Atlas decision is a signal, not ground truth: such a record has no reference, and
    ``categorize_signal`` returns the category by the signal.
    """
    if parts.applicable and parts.reference_source == "atlas_shadow":
        return "missing_reference"
    return categorize_signal(parts, taxonomy)


def categorize_signal(parts: CategoryKey, taxonomy: Taxonomy = DEFAULT_TAXONOMY) -> Category:
    """Return the category by the reference of the record, including an Atlas decision.

    Not acting when a person was needed is a missed action.
    """
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
        if kind == "no_op" and needs_action(parts.reference_label, taxonomy):
            return "false_negative"
        return "disagree"
    if parts.reference_severity is None:
        return "agree"
    apart = _RANK[parts.severity] - _RANK[parts.reference_severity]
    if abs(apart) <= 1:
        return "agree"
    return "severity_overcall" if apart > 0 else "severity_undercall"


def needs_action(reference: str, taxonomy: Taxonomy) -> bool:
    """Whether a reference requires action, or a person."""
    kind = taxonomy.kind(reference)
    return kind == "action" or (kind == "deferred" and taxonomy.normal(reference) != "unknown")


def state_outcome(category: Category) -> tuple[ComparisonWord, ErrorType | None]:
    """Return how a record states its category: the comparison, and the error type."""
    match category:
        case "false_positive" | "false_negative" | "severity_overcall" | "severity_undercall":
            return "disagree", category
        case _:
            return category, None


def is_stated(category: Category, comparison: str, error_type: str | None) -> bool:
    """Whether an outcome states this category.

    Another error type (such as ``unsafe_authority``) may replace the one that names the category: a
    record has room for one.
    """
    wanted, named = state_outcome(category)
    if comparison != wanted:
        return False
    return error_type == named or (error_type is not None and error_type not in ERROR_CATEGORIES)
