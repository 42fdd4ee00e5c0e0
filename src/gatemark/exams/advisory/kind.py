"""The kind of a record: the facts that scoring needs, without any free text.

Records of a large file share few kinds. The fold counts kinds, and scoring reads the small table of
kinds, so that a policy is cheap to change. A new fact of a record is one field of ``RecordKind``.
"""

from __future__ import annotations

from collections.abc import Set
from operator import attrgetter
from typing import Final

import msgspec

from gatemark.exams.advisory.category import CategoryKey, make_category_key
from gatemark.exams.advisory.policy import make_lane_name
from gatemark.exams.advisory.proof import grade_proof
from gatemark.exams.advisory.record import AdvisoryDecision, ProofGrade
from gatemark.exams.advisory.record_rules import BREACHES

_compared_fields: Final = attrgetter(*CategoryKey.__struct_fields__)


class RecordKind(
    CategoryKey, frozen=True, gc=False, array_like=True, kw_only=True, cache_hash=True
):
    """The facts of a record that scoring needs, without any free text.

    ``noted`` means that a note names the kind of case. ``authority``, ``side_effect``, ``privacy``
    and ``no_reason`` are what the record violates.
    """

    lane: str
    timed: bool
    noted: bool
    authority: bool
    side_effect: bool
    privacy: bool
    no_reason: bool
    mode: str
    source_kind: str
    bucket_rule: str
    comparison: str
    error_type: str | None
    promotion_blocker: bool
    proof_mode: str
    proof_ok: bool | None
    inference_ran: bool
    timeout: bool
    fallback: str | None
    fallback_expected: bool
    proof_grade: ProofGrade = "none"

    @property
    def compared(self) -> CategoryKey:
        """The fields that determine the category."""
        return CategoryKey(*_compared_fields(self))


def derive_kind(
    record: AdvisoryDecision,
    *,
    noted: bool,
    private_text: bool,
    violated: Set[str] | None = None,
) -> RecordKind:
    """Return the kind of a record; ``private_text`` is what a scan of its texts found.

    ``violated`` is what the record violates, if that is already known.
    """
    if violated is None:
        violated = {rule.kind for rule, _ in BREACHES.find_broken(record)}
    proof, outcome, bucket = record.npu_proof, record.outcome, record.confidence.bucket
    compared = make_category_key(
        record.source,
        record.service.mode,
        record.recommendation,
        bucket,
        record.human_or_atlas_decision,
    )
    return RecordKind(
        **msgspec.structs.asdict(compared),
        lane=make_lane_name(record.input_class, record.service.name),
        timed=record.latency.total_ms is not None,
        noted=noted,
        authority="authority" in violated,
        side_effect="side_effect" in violated,
        privacy=private_text or "privacy" in violated,
        no_reason="fallback_reason" in violated,
        mode=record.service.mode,
        source_kind=record.source.kind,
        bucket_rule=record.confidence.bucket_rule,
        comparison=outcome.comparison,
        error_type=outcome.error_type or None,
        promotion_blocker=outcome.promotion_blocker,
        proof_mode=proof.proof_mode,
        proof_ok=proof.proof_ok,
        inference_ran=proof.inference_ran,
        timeout=record.latency.timeout,
        fallback=record.fallback.kind or None,
        fallback_expected=record.fallback.expected,
        proof_grade=grade_proof(record),
    )
