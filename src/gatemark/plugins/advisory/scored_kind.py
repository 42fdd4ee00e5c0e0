"""Score a kind by the policy of its lane: category, outcome, cases, fallback and proof."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from gatemark.plugins.advisory.category import (
    COMPARABLE,
    SEVERITY_ORDER,
    UNCERTAIN_BUCKETS,
    Category,
    categorize,
    categorize_signal,
    is_stated,
    needs_action,
)
from gatemark.plugins.advisory.policy_limits import LaneBounds
from gatemark.plugins.advisory.record_kind import RecordKind
from gatemark.plugins.advisory.taxonomy import Taxonomy

MEASURED_PROOF: Final = frozenset(("sysfs_busy_delta", "service_reported_delta"))
_NOTABLE: Final = frozenset(SEVERITY_ORDER[2:])


class ScoredKind(NamedTuple):
    """A kind under the policy of its lane: everything that metrics need.

    ``signal`` is the category that an Atlas decision would give. ``unexplained`` names the error
    for which the record claims to block promotion, if no rule judges that error.
    """

    kind: RecordKind
    category: Category
    signal: Category | None
    label: str
    cases: frozenset[str]
    needs_action: bool
    conservative: bool
    outcome_holds: bool
    unexplained: str | None
    fallback: Literal["expected", "unexpected"] | None
    proof: Literal["ok", "missing", "not_applicable"]
    proof_required: bool

    @property
    def comparable(self) -> bool:
        """Whether it is in the denominator of the agreement rate."""
        return self.category in COMPARABLE

    @property
    def is_input(self) -> bool:
        """Whether there was an input; a probe has none and would dilute rates."""
        return self.category != "not_applicable"


def score_kind(kind: RecordKind, taxonomy: Taxonomy, bounds: LaneBounds) -> ScoredKind:
    """Compare a kind with its reference and judge it, by the policy of its lane."""
    category = categorize(kind, taxonomy)
    reference = kind.reference_label
    shadowed = kind.reference_source == "atlas_shadow" and kind.applicable
    expected = kind.fallback_expected and kind.error_type != "fallback_unexpected"
    proof, proof_required = _judge_proof(kind, category, bounds)
    blocks = kind.promotion_blocker and category != "missing_reference"
    return ScoredKind(
        kind=kind,
        category=category,
        signal=categorize_signal(kind, taxonomy) if shadowed else None,
        label=taxonomy.normal(kind.label),
        cases=frozenset() if kind.noted else _derive_cases(kind, taxonomy),
        needs_action=reference is not None and needs_action(reference, taxonomy),
        conservative=bounds.conservative,
        outcome_holds=_is_outcome_consistent(kind, category, taxonomy),
        unexplained=(kind.error_type or "no error named")
        if blocks and not _is_judged(kind, bounds)
        else None,
        fallback=None if kind.fallback is None else "expected" if expected else "unexpected",
        proof=proof,
        proof_required=proof_required,
    )


def _is_outcome_consistent(kind: RecordKind, category: Category, taxonomy: Taxonomy) -> bool:
    """Whether an outcome is consistent with the rest of its record."""
    if kind.error_type == "fallback_unexpected" and kind.fallback is None:
        return False
    if category == "not_applicable" and taxonomy.kind(kind.label) != "deferred":
        # A probe recommends nothing; a recommendation outside every rate must be looked at.
        return False
    meant = {category}
    if kind.reference_source == "atlas_shadow":
        meant.add(categorize_signal(kind, taxonomy))
    if "false_negative" in meant and taxonomy.kind(kind.reference_label or "") == "deferred":
        # Not acting when a person was needed is a missed action; a record may call it a mere
        # disagreement.
        meant.add("disagree")
    return any(is_stated(one, kind.comparison, kind.error_type) for one in meant)


def _is_judged(kind: RecordKind, bounds: LaneBounds) -> bool:
    """Whether a rule judges the error for which a record claims to block."""
    match kind.error_type:
        case None:
            return False
        case "latency_slo_miss":
            return bounds.p95_total_ms_max is not None
        case "npu_proof_missing":
            return bounds.proof_required
        case "fallback_unexpected":
            return kind.fallback is not None
        case _:
            return True


def _judge_proof(
    kind: RecordKind, category: Category, bounds: LaneBounds
) -> tuple[Literal["ok", "missing", "not_applicable"], bool]:
    """Return the state of the NPU proof, and whether one is required.

    A record needs a proof if its lane does, or if it claims that one was measured. Only the
    kernel's own counter is a proof.
    """
    if kind.proof_grade in ("counter", "implausible", "service"):
        required = category != "not_applicable" and bounds.proof_required
        return "missing" if required else "not_applicable", required
    claimed = kind.proof_mode in MEASURED_PROOF and kind.inference_ran
    required = category != "not_applicable" and (bounds.proof_required or claimed)
    stated_missing = kind.error_type == "npu_proof_missing"
    if kind.proof_ok is True and not stated_missing:
        return "ok", required
    if required or kind.proof_ok is False or stated_missing:
        return "missing", required or stated_missing
    return "not_applicable", False


def _derive_cases(kind: RecordKind, taxonomy: Taxonomy) -> frozenset[str]:
    """Return the kinds of cases that the fields show if no note ``case:KIND`` names one.

    An uncertain bucket; a reference that requires action; one that requires none although somebody
    saw something notable in it; and one in which nobody did.
    """
    unsure = kind.bucket in UNCERTAIN_BUCKETS
    kinds = {"low_confidence"} if unsure else set()
    if kind.reference_label is None or kind.reference_source in ("missing", "atlas_shadow"):
        return frozenset(kinds)
    reference = taxonomy.kind(kind.reference_label)
    if reference == "action":
        kinds.add("action_needed")
    elif reference == "no_op":
        alarmed = taxonomy.kind(kind.label) == "action" or kind.severity in _NOTABLE
        if alarmed or kind.reference_severity in _NOTABLE:
            kinds.add("false_alarm")
        elif not unsure:
            kinds.add("normal")
    return frozenset(kinds)
