"""Seal the result of a run, and store it with everything it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.result import Blob, PackRef, Result, seal
from gatemark.evidence.result_rules import name_pack_rules
from gatemark.evidence.runtime_versions import runtime_versions
from gatemark.packs.judge import PackDecision
from gatemark.packs.judge_replies import QUALIFICATION, name_replies
from gatemark.packs.kept_targets import write_targets
from gatemark.packs.origin import Origin
from gatemark.packs.run import AnsweredRun
from gatemark.packs.stored_pack import make_title, write_definition
from gatemark.workspace import Workspace

LINES_TYPE: Final = "application/jsonl"
EVIDENCE_TYPE: Final = "application/octet-stream"
_MEDIA_TYPES: Final = {".json": "application/json", ".jsonl": LINES_TYPE}


def seal_run(
    workspace: Workspace,
    answered: AnsweredRun,
    judged: PackDecision,
    origin: Origin,
    *,
    finished_at: datetime,
) -> Result:
    """Seal the decision on a run, and store the result with everything it depends on."""
    run = answered.run
    written = write_evidence(answered)
    definition = {**write_definition(run.opened), **write_targets(origin.identities)}
    sealed = judged.sealed_fields()
    result = seal(
        **{**sealed, "caveats": (*judged.verdict.caveats, *origin.caveats)},
        title=make_title(run.pack),
        pack=PackRef(run.pack.name, run.pack.version, digest(run.pack)),
        rules=name_pack_rules(
            suite.kind for suite in run.pack.suites if suite.evidence is not None
        ),
        candidate=origin.candidate,
        baseline=origin.baseline,
        snapshots=run.opened.references,
        runtime={**runtime_versions(), **origin.runtime},
        blobs=tuple(_list_blobs(answered, written, definition)),
        waivers=run.waivers,
        started_at=run.started_at,
        finished_at=finished_at,
        actor=workspace.actor,
        cost=origin.cost,
    )
    workspace.refuse_erased(result)
    for data in (*written.values(), *definition.values()):
        workspace.blobs.put(data)
    for exam in run.exams.values():
        for file in exam.files:
            workspace.blobs.put_file(Path(exam.paths[file.name]), file.digest)
    workspace.results.append(result)
    return result


def write_evidence(answered: AnsweredRun) -> dict[str, bytes]:
    """Return the files that a run wrote itself, by name: answers, replies, vectors, attachments."""
    arms = answered.arms.items()
    files: dict[str, bytes] = {}
    for arm, answers in arms:
        files |= answers.list_line_files(arm)
    for arm, answers in arms:
        files |= answers.list_reply_files(arm)
    for arm, answers in arms:
        files |= answers.list_vector_files(arm)
    for suite, found in answered.qualifications.items():
        files[name_replies(suite, QUALIFICATION)] = found.graded.lines()
    for exam in answered.run.exams.values():
        files |= exam.attachments
    return files


def _list_blobs(
    answered: AnsweredRun, written: Mapping[str, bytes], definition: Mapping[str, bytes]
) -> list[Blob]:
    read = [file for exam in answered.run.exams.values() for file in exam.files]
    return [
        *(Blob(name, digest_bytes(data), LINES_TYPE) for name, data in written.items()),
        *(Blob(file.name, file.digest, EVIDENCE_TYPE) for file in read),
        *(
            Blob(name, digest_bytes(data), _MEDIA_TYPES[Path(name).suffix])
            for name, data in definition.items()
        ),
    ]
