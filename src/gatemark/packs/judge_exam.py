"""From a sat exam to a judged, sealable result."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.policy import Policy, Waiver
from gatemark.core.result import AssetRef, Blob, Cost, PackRef, Result, seal
from gatemark.evidence.exam import ExamOutcome
from gatemark.gate.decide import decide
from gatemark.gate.runtime import runtime_versions
from gatemark.workspace import Workspace

EXPECTED_IDS: Final = "expected_ids.txt"
"""The name under which a list of pinned ids is kept with a result."""


class Scored(msgspec.Struct, frozen=True):
    """A judged exam: the result, its JSON summary and the files that belong to it.

    ``kept`` is what goes into the store beside the attachments, so that the exam can be sat again.
    """

    result: Result
    summary: dict[str, Any]
    attachments: dict[str, bytes]
    kept: dict[str, bytes] = {}


def judge_exam(
    kind: str,
    examined: ExamOutcome,
    workspace: Workspace,
    *,
    started_at: datetime,
    waivers: Sequence[Waiver] = (),
    title: str | None = None,
    kept: Mapping[str, bytes] | None = None,
    about: tuple[AssetRef | None, AssetRef | None] = (None, None),
) -> Scored:
    """Decide over one exam and put it all into a result; ``about`` is candidate and baseline."""
    finished_at = workspace.clock()
    policy: Policy = examined.exam.policy()
    report = examined.report
    verdict = decide(policy, (examined.evidence,), report.measurements, waivers, now=finished_at)
    closing = examined.exam.closing(report, examined.evidence, verdict)
    blobs = tuple(
        Blob(name, digest_bytes(data), mimetypes.guess_type(name)[0] or "application/octet-stream")
        for name, data in sorted({**report.attachments, **(kept or {})}.items())
    )
    result = seal(
        title=title or f"{kind} exam",
        pack=PackRef(
            name=f"score-{kind}", version=1, digest=digest({"kind": kind, "policy": policy})
        ),
        policy=policy,
        policy_digest=policy.digest,
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
        actor=workspace.actor,
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


def keep(scored: Scored, workspace: Workspace, evidence_paths: Mapping[str, str]) -> int:
    """Put a result, its attachments and its evidence into the store; gives its number.

    ``evidence_paths`` tells where each evidence file of the result lies on disk.
    """
    for evidence in scored.result.evidence:
        for file in evidence.files:
            workspace.blobs.put_file(Path(evidence_paths[file.name]), file.digest)
    for data in (*scored.attachments.values(), *scored.kept.values()):
        workspace.blobs.put(data)
    return workspace.results.append(scored.result)
