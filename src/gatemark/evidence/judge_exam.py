"""Judge an exam: what it found, its findings and its verdict in one sealed result."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.policy import Policy, Verdict, Waiver, decide
from gatemark.core.reason import Reason
from gatemark.core.result import AssetRef, Blob, Cost, PackRef, Result, seal
from gatemark.evidence.exam import ExamOutcome
from gatemark.evidence.exam_suite import exam_suite
from gatemark.evidence.runtime_versions import runtime_versions

SCORE_PACK: Final = "score-"
"""Prefix of the pack name of a result that comes from one exam."""


class Scored(msgspec.Struct, frozen=True):
    """A judged exam: the result, its JSON summary and the files that belong to it.

    ``kept`` goes into the store alongside the attachments, so that the exam can be run again.
    """

    result: Result
    summary: dict[str, Any]
    attachments: dict[str, bytes]
    kept: dict[str, bytes] = {}

    @property
    def stored_files(self) -> tuple[bytes, ...]:
        """The files that go into the store with the result, besides its evidence."""
        return (*self.attachments.values(), *self.kept.values())


def judge_exam(
    kind: str,
    examined: ExamOutcome,
    *,
    actor: str,
    started_at: datetime,
    finished_at: datetime,
    waivers: Sequence[Waiver] = (),
    title: str | None = None,
    kept: Mapping[str, bytes] | None = None,
    about: tuple[AssetRef | None, AssetRef | None] = (None, None),
) -> Scored:
    """Judge one exam; ``about`` is the candidate and the baseline."""
    policy: Policy = examined.exam.policy()
    report = examined.report
    verdict = decide(policy, (examined.evidence,), report.measurements, waivers, now=finished_at)
    verdict = reword_findings(verdict, examined.exam.reasons(report, verdict))
    closing = examined.exam.closing(report, examined.evidence, verdict)
    blobs = tuple(
        Blob(name, digest_bytes(data), mimetypes.guess_type(name)[0] or "application/octet-stream")
        for name, data in sorted({**report.attachments, **(kept or {})}.items())
    )
    result = seal(
        title=title or f"{kind} exam",
        pack=PackRef(
            name=f"{SCORE_PACK}{kind}", version=1, digest=digest({"kind": kind, "policy": policy})
        ),
        policy=policy,
        policy_digest=policy.digest,
        rules={kind: exam_suite(kind).rules_versions.current},
        candidate=about[0],
        baseline=about[1],
        snapshots=tuple(file.digest for file in examined.evidence.files),
        runtime=runtime_versions(),
        evidence=(examined.evidence,),
        measurements=report.measurements,
        findings=verdict.findings,
        bench=verdict.bench,
        regression=verdict.regression,
        verdict=verdict.outcome,
        blockers=verdict.blockers,
        caveats=(*verdict.caveats, *closing.caveats),
        figures=(*closing.figures, *report.figures),
        blobs=blobs,
        waivers=tuple(waivers),
        started_at=started_at,
        finished_at=finished_at,
        actor=actor,
        cost=Cost(calls=0),
    )
    summary = {
        **examined.exam.summary(report, examined.evidence, verdict),
        "policy_digest": policy.digest,
        "result_id": result.id,
    }
    return Scored(
        result=result,
        summary=summary,
        attachments=report.attachments,
        kept=dict(kept or {}),
    )


def reword_findings(verdict: Verdict, reasons: Mapping[str, str]) -> Verdict:
    """Replace the words of findings, and of the blockers that they gave."""
    findings = tuple(
        msgspec.structs.replace(found, reason=_reword(found.reason, reasons[found.rule]))
        if found.rule in reasons
        else found
        for found in verdict.findings
    )
    said = {
        str(before.reason): str(after.reason)
        for before, after in zip(verdict.findings, findings, strict=True)
    }
    blockers = tuple(said.get(text, text) for text in verdict.blockers)
    return msgspec.structs.replace(verdict, findings=findings, blockers=blockers)


def _reword(reason: Reason, text: str) -> Reason:
    return msgspec.structs.replace(reason, text=text)
