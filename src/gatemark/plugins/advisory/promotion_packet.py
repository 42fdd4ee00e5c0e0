"""The promotion packet of a lane: what people need to discuss it, from one sealed result.

A packet proposes and grants nothing. Everything in it is derived again from the sealed records.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from gatemark.core.errors import RefusedError, UsageError
from gatemark.core.policy import Finding
from gatemark.core.result import Result, answer_time_of
from gatemark.packs.lanes import LanePacket
from gatemark.packs.pack_file import BASELINE
from gatemark.packs.rescore import DerivedExam, derive_exams, read_evidence_lines
from gatemark.plugins.advisory.exam import SUITE, AdvisoryOptions
from gatemark.plugins.advisory.gate_rules import OTHER_LANES
from gatemark.plugins.advisory.metrics import RATE_METRICS
from gatemark.plugins.advisory.policy import make_lane_name
from gatemark.plugins.advisory.promotion import BLOCKED, CANDIDATE, NO_AUTHORITY
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.plugins.advisory.wrong_records import describe_wrong_records
from gatemark.report.markdown import escape_text, format_code
from gatemark.report.words import counted
from gatemark.statistics.proportion import wilson_interval
from gatemark.workspace import Workspace

MODEL_DIGEST: Final = "model_digest:"
NOT_GIVEN: Final = "not given"
_RATE_NAMES: Final = frozenset(metric.name for metric in RATE_METRICS)


def build_packet(
    workspace: Workspace, lane: str, reference: str, rollback: str | None = None
) -> LanePacket:
    """Return the packet of a lane from a sealed result: of the exam, or of a pack with it.

    A pack may have several suites with records of the lane. It is a candidate only by all of them,
    and only if the pack passed.
    """
    result = workspace.citable_result(reference)
    parts = _derive_parts(workspace, result, lane)
    named = msgspec.convert(parts[0][0].options, AdvisoryOptions).policy.lanes.get(lane)
    settled = None if named is None else named.promotion
    runs, models = _list_runs_and_models(workspace, result, lane)
    waived: list[str] = []
    blockers: list[str] = []
    status = CANDIDATE
    for derived, own in parts:
        found = own["lanes"][lane]["status"].partition(":")[0]
        status = found if status == CANDIDATE else status
        # An accepted waiver is a caveat; one that is not accepted excuses nothing.
        for one in _list_open_rules(derived, lane):
            is_accepted = one.verdict == "waived" and found == CANDIDATE
            (waived if is_accepted else blockers).append(_describe_finding(one))
    if result.candidate is not None and result.verdict != "pass":
        status = BLOCKED if status == CANDIDATE else status
        why = result.blockers[0] if result.blockers else result.verdict
        blockers.append(f"the pack did not pass ({result.verdict}): {why}")
    if settled is None or not (rollback or settled.rollback_plan):
        blockers.append("the policy names no approved scope, rollback plan and reviewer")
    if status != CANDIDATE and not blockers:
        blockers.append(f"the result says: {status}")
    answered = answer_time_of(result)
    return LanePacket(
        lane=lane,
        status=status,
        result=result.id,
        sealed_by=result.actor,
        scope=NOT_GIVEN if settled is None else settled.scope,
        rollback_plan=rollback or (NOT_GIVEN if settled is None else settled.rollback_plan),
        reviewer=NOT_GIVEN if settled is None else settled.reviewer,
        numbers=tuple(_mark_lines(parts, lambda derived, _: _list_numbers(derived, lane))),
        runs=runs,
        models=models,
        caveats=(*waived, *_mark_lines(parts, partial(_list_caveats, lane))),
        blockers=tuple(blockers),
        statement=NO_AUTHORITY,
        oldest_answer=None if answered is None else f"{answered.at:%Y-%m-%d %H:%M:%SZ}",
    )


Part = tuple[DerivedExam, Mapping[str, Any]]
"""An exam, and the promotion part of its summary."""


def _derive_parts(workspace: Workspace, result: Result, lane: str) -> list[Part]:
    """Return the exams with a lane, derived again from the sealed records."""
    parts = [
        (derived, derived.summary()["promotion"])
        for derived in derive_exams(workspace.blobs, result, SUITE.kind)
    ]
    if not parts:
        raise RefusedError(
            f"result {result.id[7:19]} is not of the advisory exam; seal one with "
            "'gatemark advisory run … --seal' or run a pack with an advisory suite"
        )
    known = sorted({name for _, section in parts for name in section["lanes"]})
    if lane not in known:
        raise UsageError(
            f"result {result.id[7:19]} has no lane {lane!r} "
            f"(its lanes: {', '.join(known) or 'none'})"
        )
    return [part for part in parts if lane in part[1]["lanes"]]


def _mark_lines(
    parts: Sequence[Part], lines: Callable[[DerivedExam, Mapping[str, Any]], Iterable[str]]
) -> Iterator[str]:
    """Yield the lines of every exam; if there are several, each line names its exam."""
    for place, (derived, section) in enumerate(parts, start=1):
        mark = f"suite {place} of {len(parts)}: " if len(parts) > 1 else ""
        yield from (f"{mark}{line}" for line in lines(derived, section))


def _list_caveats(lane: str, derived: DerivedExam, section: Mapping[str, Any]) -> Iterator[str]:
    """Yield the caveats of the lane and of the result; those of other lanes are only counted."""
    # A caveat of one lane begins with its name; one lane's name may begin with another's.
    names = sorted(section["lanes"], key=len, reverse=True)
    shared, foreign = [], 0
    for text in section["caveats"]:
        owner = next((name for name in names if text.startswith(name)), None)
        if owner == lane:
            yield text
        elif owner is None:
            shared.append(text)
        else:
            foreign += 1
    wrong = derived.outcome.report.facts["wrong_records"]
    worst = [one for one in wrong["worst"] if one["lane"] == lane]
    yield from describe_wrong_records({"wrong_records": {"total": len(worst), "worst": worst}})
    mark = "whole result: " if len(names) > 1 else ""
    yield from (f"{mark}{text}" for text in shared)
    if elsewhere := wrong["total"] - len(worst):
        is_cut = wrong["total"] > len(wrong["worst"])
        whose = "of other lanes, or alike" if is_cut else "of other lanes"
        yield f"{elsewhere:,} more records to look at are {whose}; the result lists them"
    if foreign:
        yield f"{counted(foreign, 'more caveat')} about other lanes; see the result"


def _list_open_rules(derived: DerivedExam, lane: str) -> Iterator[Finding]:
    """Yield the rules of the lane and of all lanes together that did not simply pass."""
    lane_of = {rule.id: rule.scope for rule in derived.outcome.exam.policy().rules}
    for finding in derived.verdict.findings:
        concerns = lane_of.get(finding.rule) in (None, lane) and finding.rule != OTHER_LANES
        if concerns and finding.verdict not in ("pass", "soft_pass"):
            yield finding


def _describe_finding(finding: Finding) -> str:
    return f"{finding.rule}: {finding.reason} ({finding.verdict})"


def _list_numbers(derived: DerivedExam, lane: str) -> Iterator[str]:
    for number in derived.outcome.report.measurements:
        if number.scope != lane:
            continue
        if number.value is None:
            yield f"{number.name}: no value ({number.reason})"
            continue
        within = ""
        if number.name in _RATE_NAMES and number.n:
            low, high = wilson_interval(round(number.value * number.n), number.n)
            within = f", 95% from {low:.4f} to {high:.4f}"
        yield f"{number.name}: {number.value:.6g} (n={number.n:,}{within})"


def _list_runs_and_models(
    workspace: Workspace, result: Result, lane: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the runs and the models of a lane, from its sealed records and earlier runs."""
    decoder: Any = msgspec.json.Decoder(AdvisoryDecision)
    runs: dict[str, None] = {}
    models: dict[str, None] = {}
    for evidence in result.evidence:
        # Answers of a baseline are not evidence about the lane.
        for file in evidence.files if evidence.checks.get("arm") != BASELINE else ():
            for line in read_evidence_lines(workspace.blobs, file.digest):
                try:
                    record = decoder.decode(line)
                except msgspec.MsgspecError:
                    # It is blank, or the result counts it as rejected.
                    continue
                if make_lane_name(record.input_class, record.service.name) != lane:
                    continue
                runs[record.source.artifact_ref or file.digest] = None
                models[_describe_model(record)] = None
    return tuple(runs), tuple(models)


def _describe_model(record: AdvisoryDecision) -> str:
    name = record.service.model or "unnamed"
    notes = record.notes or ()
    digest = next((note for note in notes if note.startswith(MODEL_DIGEST)), None)
    return f"{name}, no digest" if digest is None else f"{name}, {digest[len(MODEL_DIGEST) :]}"


def _render_opening(packet: LanePacket) -> str:
    oldest = "" if packet.oldest_answer is None else f" Oldest answer: {packet.oldest_answer}."
    sealed = f"From result {packet.result}, sealed by {packet.sealed_by}."
    return f"Status: {packet.status}. {sealed}{oldest}"


def render_packet_markdown(packet: LanePacket) -> bytes:
    """Return the packet as Markdown."""
    parts = [
        f"# Promotion packet: {format_code(packet.lane)}",
        escape_text(_render_opening(packet)),
        packet.statement,
    ]
    for title, lines in packet.sections:
        body = "\n".join(f"- {escape_text(line)}" for line in lines) or "- none"
        parts.append(f"## {title}\n\n{body}")
    return ("\n\n".join(parts) + "\n").encode()


def render_packet_html(packet: LanePacket) -> bytes:
    """Return the packet as one HTML page without scripts."""
    title = html.escape(f"Promotion packet: {packet.lane}")
    parts = [f"<h1>{title}</h1>"]
    parts += [f"<p>{html.escape(text)}</p>" for text in (_render_opening(packet), packet.statement)]
    for heading, lines in packet.sections:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines or ("none",))
        parts.append(f"<h2>{heading}</h2>\n<ul>{items}</ul>")
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"</head>\n<body>\n{body}\n</body></html>\n"
    ).encode()
