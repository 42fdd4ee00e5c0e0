"""The kind of a record: the facts that scoring needs, without any free text.

Records of a large file share few kinds. The fold counts kinds, and scoring reads the small table of
kinds, so that a policy is cheap to change. A new fact of a record is one field of ``RecordKind``
and a column of its name (``record_columns``).
"""

from __future__ import annotations

from gatemark.plugins.advisory.category import CategoryKey
from gatemark.plugins.advisory.record import ProofGrade


class RecordKind(CategoryKey, frozen=True, gc=False, array_like=True, cache_hash=True):
    """The facts of a record that scoring needs; every field is the name of a column.

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
    proof_grade: ProofGrade
