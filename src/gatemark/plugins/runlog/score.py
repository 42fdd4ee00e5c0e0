"""``gatemark score runlog``: judge per-case metrics that were computed before."""

from __future__ import annotations

from gatemark.checks.score import score_verb
from gatemark.plugins.runlog.exam import SUITE

# The files are read completely and strictly, so there are no reading options.
SCORE = score_verb(SUITE, features=frozenset({"expected_ids", "out", "seal", "waivers"}))
