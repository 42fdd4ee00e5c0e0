"""``gatemark score runlog``: judge per-case metrics that were computed before."""

from __future__ import annotations

from gatemark.exams.runlog.exam import SUITE
from gatemark.exams.score import score_verb

# The files are read whole and strictly, so there is nothing to choose about reading.
SCORE = score_verb(SUITE, features=frozenset({"expected_ids", "out", "seal", "waivers"}))
