"""``gatemark runlog metrics``: compute metrics with intervals from run logs.

(1) Find manifest, traces, logs and variants. (2) Measure case by case on an engine. (3) Refuse
mismatching logs, or count them as excluded. (4) Flag outliers and fold the rows into the exam. (5)
Write the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence, EvidenceFile, Measurement
from gatemark.core.progress import Progress
from gatemark.core.result import Figure
from gatemark.evidence.exam import ExamOutcome, ExamReport
from gatemark.evidence.exam_job import ExamJob, build_exam
from gatemark.evidence.input_problems import refuse_input
from gatemark.evidence.judge_exam import Scored, judge_exam
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import digest_source, inspect_source
from gatemark.plugins.runlog.concepts.choose import find_extractor
from gatemark.plugins.runlog.exam import EVENT_COUNT
from gatemark.plugins.runlog.metrics.errors import flag_outliers
from gatemark.plugins.runlog.metrics.files import (
    describe_provenance,
    find_other_extractors,
    render_files,
)
from gatemark.plugins.runlog.metrics.inputs import MetricsInputs, find_inputs
from gatemark.plugins.runlog.metrics.measure_case import (
    MetricsOutcome,
    measure_case,
    read_checked_log,
    read_checked_trace,
)
from gatemark.plugins.runlog.metrics.origins import (
    find_mixed_settings,
    group_by_variant,
    list_extractor_caveats,
    list_origin_caveats,
)
from gatemark.plugins.runlog.metrics.request import MetricsRequest
from gatemark.plugins.runlog.options import RunlogOptions
from gatemark.plugins.runlog.records.fields import refuse_no_moment
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.records.names import format_moment
from gatemark.plugins.runlog.views import draw_timeline
from gatemark.workspace import Workspace

FEW_CASES = 20
NO_GATE = "no gate was set, so that the verdict only says whether the evidence is whole"


def score_runlog(
    workspace: Workspace, request: MetricsRequest, on_progress: Progress | None = None
) -> Scored:
    """Measure run logs and judge the measurements."""
    started_at = workspace.clock()
    examined = examine_runlog(workspace, request, on_progress)
    judged = examined.exam.policy().settings["variant"]
    title = f"run-log metrics of {judged}"
    return judge_exam(
        "runlog",
        examined,
        actor=workspace.actor,
        started_at=started_at,
        finished_at=workspace.clock(),
        title=title,
    )


def examine_runlog(
    workspace: Workspace, request: MetricsRequest, on_progress: Progress | None = None
) -> ExamOutcome:
    """Run the exam over run logs, traces and their manifest."""
    refuse_no_moment(request.computed_at, "--computed-at")
    # Step 1. Loading an extractor is slow, so each worker does it when needed.
    find_extractor(request.extractor)
    inputs = find_inputs(request)
    if request.judged is not None and request.judged not in inputs.variants:
        raise UsageError(
            f"there are no run logs of {request.judged!r} to judge "
            f"(measured: {', '.join(inputs.variants)})"
        )
    exam = build_exam(_make_exam_job(request, inputs.variants))
    # Step 2.
    outcomes: list[MetricsOutcome] = []
    engine = workspace.engine_for(len(inputs.tasks), FEW_CASES)
    for data in engine.run(partial(measure_case, inputs.job), inputs.tasks):
        outcomes.append(msgspec.msgpack.decode(data, type=MetricsOutcome))
        if on_progress is not None:
            on_progress(len(outcomes), len(inputs.tasks))
    outcomes.sort(key=lambda outcome: outcome.case_id)
    # Step 3.
    refused = [problems for outcome in outcomes for problems in outcome.refused.values()]
    if request.on_bad_case == "error":
        choices = ReadingChoices(max_errors=request.max_errors)
        refuse_input([problem for problems in refused for problem in problems], choices)
    origins = group_by_variant({outcome.case_id: outcome.origins for outcome in outcomes})
    refuse_input(list(find_mixed_settings(origins)), ReadingChoices(max_errors=request.max_errors))
    # Step 4.
    rows = [row for outcome in outcomes for row in outcome.rows]
    if not rows:
        raise BadInputError(f"{request.runs}: no run log could be measured")
    rows.sort(key=lambda row: (row.variant_id, row.case_id))
    flagged = flag_outliers(rows)
    report = exam.finish(exam.step(exam.zero(0), flagged))
    # Step 5.
    evidence = Evidence(
        received=len(rows) + len(refused),
        accepted=len(rows),
        rejected=len(refused),
        usable=len(rows),
        missing=inputs.missing,
        expected=len(inputs.manifest.entries) * len(inputs.variants),
        files=_list_files(inputs, outcomes),
        checks={"on_bad_case": request.on_bad_case, "compat": request.compat},
    )
    computed_at = request.computed_at or format_moment(max(outcome.end_ms for outcome in outcomes))
    provenance = describe_provenance(request, inputs, outcomes)
    caveats = (
        *(() if request.gates or request.paired_gates else (NO_GATE,)),
        *list_origin_caveats(origins, request.compat),
        *list_extractor_caveats(origins, find_other_extractors(outcomes)),
    )
    return ExamOutcome(
        exam,
        msgspec.structs.replace(
            report,
            measurements=_add_caveats(report, caveats),
            figures=(*report.figures, *_draw_timeline(request, inputs, flagged)),
            attachments=render_files(request, report, flagged, computed_at, provenance),
            facts={**report.facts, "extractor": provenance["extractor"]},
        ),
        evidence,
    )


def _add_caveats(report: ExamReport, caveats: tuple[str, ...]) -> tuple[Measurement, ...]:
    """Return the measurements, with the caveats on the number of summaries."""
    return tuple(
        msgspec.structs.replace(number, caveats=(*number.caveats, *caveats))
        if number.name == EVENT_COUNT
        else number
        for number in report.measurements
    )


def _make_exam_job(request: MetricsRequest, variants: Sequence[str]) -> ExamJob:
    given = msgspec.structs.asdict(request)
    shared = {name: given[name] for name in RunlogOptions.__struct_fields__ if name in given}
    options = {**shared, "variant": request.judged or variants[0]}
    return ExamJob("runlog", options, ReadingChoices(max_errors=request.max_errors))


def _list_files(
    inputs: MetricsInputs, outcomes: Sequence[MetricsOutcome]
) -> tuple[EvidenceFile, ...]:
    manifest = digest_source(inspect_source(str(inputs.manifest_path)))
    return (manifest, *(file for outcome in outcomes for file in outcome.files))


def _draw_timeline(
    request: MetricsRequest, inputs: MetricsInputs, rows: Sequence[PerCaseMetrics]
) -> Iterator[Figure]:
    """Draw one case of the judged variant: the requested one, or the first that stands out."""
    judged = request.judged or inputs.variants[0]
    mine = [row for row in rows if row.variant_id == judged]
    wanted = request.timeline_case or next(
        (row.case_id for row in mine if row.outlier_flags), mine[0].case_id if mine else None
    )
    task = next((task for task in inputs.tasks if task.entry.case_id == wanted), None)
    if task is None or judged not in task.logs:
        if request.timeline_case is not None:
            raise UsageError(f"there is no log of {request.timeline_case!r} under {judged}")
        return
    trace = read_checked_trace(inputs.job, task)
    found = draw_timeline(read_checked_log(inputs.job, task, judged, trace), trace.trace)
    if found is not None:
        yield found
