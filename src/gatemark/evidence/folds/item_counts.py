"""What a review's votes account for: the items that were to be judged, and those left out of it."""

from __future__ import annotations

import msgspec

from gatemark.evidence.folds.run_exam import ExamOutcome


def with_items(examined: ExamOutcome, *, pinned: int, left_out: int, peeking: bool) -> ExamOutcome:
    """The exam over votes, accounted by items: how many were judged, of how many that were meant.

    Where looking is allowed at any time, stopping is too; otherwise what is missing holds.
    """
    judged = examined.report.facts["items"]
    evidence = msgspec.structs.replace(
        examined.evidence,
        usable=judged,
        missing=left_out + (0 if peeking else pinned - judged),
        expected=pinned + left_out,
    )
    return msgspec.structs.replace(examined, evidence=evidence)
