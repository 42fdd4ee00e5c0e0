"""The suite of guard overhead: its roles, options and documents."""

from __future__ import annotations

from gatemark.evidence.exam_suite import DocumentType, EvidenceRole, ExamSuite
from gatemark.plugins.overhead.costs import Costs
from gatemark.plugins.overhead.document import OverheadReport
from gatemark.plugins.overhead.examine import examine_overhead
from gatemark.plugins.overhead.options import OverheadOptions
from gatemark.plugins.overhead.overhead_exam import OverheadExam
from gatemark.plugins.overhead.window_numbers import SECOND_RUNS

SUITE = ExamSuite(
    kind="overhead",
    summary="What do the guards cost on the same windows, and is that within the budget?",
    options=OverheadOptions,
    build=lambda options, _measures: OverheadExam(options),
    roles=(
        EvidenceRole("bare", "The arm without guards.", required=True),
        EvidenceRole("guarded", "The arm with the whole guard chain.", required=True),
        EvidenceRole("noise", "A second bare run, for the noise floor."),
        EvidenceRole("repeat", "A second guarded run, which must repeat the first."),
        EvidenceRole("costs", "Recorded time and memory, as the runner writes it."),
    ),
    examine=lambda run: examine_overhead(
        dict(run.files), run.options, run.reading, on_progress=run.on_progress
    ),
    role_options=lambda roles: {role: role in roles for role in SECOND_RUNS},
    documents=(
        DocumentType(
            "gatemark.overhead-report/1",
            "The report of guard overhead; closed: no other key is allowed.",
            OverheadReport,
        ),
        DocumentType(
            "gatemark.overhead-costs/1",
            "Time and memory of both arms, recorded beside them.",
            Costs,
        ),
    ),
)
