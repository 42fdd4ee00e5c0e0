"""``gatemark score overhead``: judge the cost of guards by a policy."""

from __future__ import annotations

from gatemark.checks.score import score_verb
from gatemark.plugins.overhead.exam import SUITE
from gatemark.plugins.overhead.flat_report import COMPAT
from gatemark.plugins.overhead.parameters import OverheadParameters, build_overhead_options

SCORE = score_verb(
    SUITE,
    summary="Measure what guards cost and judge it by a budget.",
    help="""\
Both files are gatemark.arm/1: a first line about the arm, then one line per window. They must
agree in plan, seeds, device, snapshot, window ids and contents; otherwise the verdict is
inconclusive. Perplexity kinds are judged by the ratio of perplexities, accuracy by the points
lost. A gain never fails.

Exit 0 pass, 1 fail, 2 bad input, 3 inconclusive.

\b
Examples:
  gatemark score overhead --bare bare.jsonl --guarded guarded.jsonl
  gatemark score overhead --bare b.jsonl --guarded g.jsonl --mode interval -o report.html
  gatemark score overhead --bare b.jsonl --guarded g.jsonl --budget 0.02 \\
    --reason "pilot" --owner ada --evidence runs/pilot.json""",
    features=frozenset({"seal"}),
    parameters=OverheadParameters,
    to_options=build_overhead_options,
    report_files=(COMPAT,),
)
