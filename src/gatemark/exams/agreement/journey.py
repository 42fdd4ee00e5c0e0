"""``gatemark score agreement``: whether two independent validators say the same."""

from __future__ import annotations

from gatemark.exams.agreement.exam import SUITE, AgreementParameters
from gatemark.exams.score import EVERY_EXAM, score_verb

SCORE = score_verb(
    SUITE,
    summary="Measure agreement between two validators and judge it.",
    help="""\
Percent agreement, Cohen's kappa, Gwet's AC1 and Krippendorff's alpha with intervals, and the
agreement on every single label; every row is arbitrated.
Exit 0 pass, 1 fail, 2 bad input, 3 could not be judged.

\b
Examples:
  gatemark score agreement --pairs pairs.jsonl --out runs
  gatemark score agreement --scholar s.jsonl --auditor a.jsonl --json -o report.html""",
    parameters=AgreementParameters,
    features=EVERY_EXAM | {"unpaired"},
    writes="consistency_disagreements.tsv",
)
