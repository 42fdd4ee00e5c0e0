"""The journey of ``gatemark score advisory``: decision records in, a judged summary out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.canonical import json_file
from gatemark.core.errors import UsageError
from gatemark.core.policy import Waiver
from gatemark.core.progress import Progress
from gatemark.evidence.folds.fold_files import CachePolicy, FactsKeeper
from gatemark.evidence.folds.run_exam import (
    SITTING,
    ExamOutcome,
    exam_job,
    examine_files,
    write_sitting,
)
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.evidence.source import STDIN, read_expected_ids
from gatemark.exams.advisory.message import render_markdown
from gatemark.exams.advisory.policy_file import KIND, read_advisory_policy, read_history
from gatemark.gate.judge_exam import EXPECTED_IDS, Scored, judge_exam, keep
from gatemark.workspace import Workspace

DECISIONS = "decisions"


class AdvisoryRequest(msgspec.Struct, frozen=True):
    """What a user wants scored, and against what.

    ``cache`` lets facts kept in the store stand in for reading a large file again.
    """

    paths: tuple[str, ...]
    policy: str | None = None
    history: str | None = None
    expected_ids: str | None = None
    waivers: tuple[Waiver, ...] = ()
    seal: bool = False
    title: str | None = None
    cache: bool = True


def examine_advisory(
    workspace: Workspace,
    paths: Sequence[str],
    choices: ReadingChoices,
    *,
    policy: Mapping[str, Any] | None = None,
    history: Sequence[Mapping[str, Any]] = (),
    expected_ids: frozenset[str] | None = None,
    keeping: CachePolicy | None = None,
    on_progress: Progress | None = None,
) -> ExamOutcome:
    """Sit the advisory exam on files of decision records; nothing is judged yet.

    ``policy`` and ``history`` are what ``read_advisory_policy`` and ``read_history`` give.
    """
    return examine_files(
        exam_job(KIND, _options(policy, history), choices),
        paths,
        choices,
        workspace.engine,
        expected_ids=expected_ids,
        keeping=keeping,
        on_progress=on_progress,
    )


def _options(
    policy: Mapping[str, Any] | None, history: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {"policy": dict(policy or {}), "history": [dict(run) for run in history]}


def sit_advisory(
    workspace: Workspace, options: dict[str, Any], files: Mapping[str, str], choices: ReadingChoices
) -> ExamOutcome:
    """Sit the exam for a pack, over one file of decision records."""
    if set(files) != {DECISIONS}:
        raise UsageError(f"advisory reads one file, under the name {DECISIONS!r}")
    return examine_files(
        exam_job(KIND, options, choices), [files[DECISIONS]], choices, workspace.engine
    )


def score_advisory(
    workspace: Workspace,
    request: AdvisoryRequest,
    choices: ReadingChoices,
    *,
    on_progress: Progress | None = None,
) -> Scored:
    """Score decision records, judge them by a policy, and seal when asked."""
    if not request.paths:
        raise UsageError("give at least one file of decision records")
    if request.seal and STDIN in request.paths:
        raise UsageError("sealed evidence must be a file; save standard input first")
    started_at = workspace.clock()
    policy = None if request.policy is None else read_advisory_policy(request.policy)
    history = [] if request.history is None else read_history(request.history)
    pinned = None if request.expected_ids is None else read_expected_ids(request.expected_ids)
    keeping = None
    if request.cache:
        keeper = FactsKeeper(workspace.facts_folder)
        keeping = CachePolicy(keeper, workspace.clock, trusted=not request.seal)
    examined = examine_advisory(
        workspace,
        request.paths,
        choices,
        policy=policy,
        history=history,
        expected_ids=pinned,
        keeping=keeping,
        on_progress=on_progress,
    )
    kept = {
        SITTING: write_sitting(
            KIND, _options(policy, history), choices, [DECISIONS] * len(examined.evidence.files)
        )
    }
    if pinned is not None:
        kept[EXPECTED_IDS] = "\n".join(sorted(pinned)).encode()
    scored = judge_exam(
        KIND,
        examined,
        workspace,
        started_at=started_at,
        waivers=request.waivers,
        title=request.title,
        kept=kept,
    )
    scored = msgspec.structs.replace(
        scored, summary={**scored.summary, "generated_at": _moment(scored.result.finished_at)}
    )
    if request.seal:
        keep(scored, workspace, {path: path for path in request.paths})
    return scored


def write_summaries(folder: str, summary: dict[str, Any]) -> tuple[Path, ...]:
    """Write ``summary.json`` and ``summary.md``, both or neither."""
    files = {
        "summary.json": json_file(summary),
        "summary.md": render_markdown(summary),
    }
    written = []
    for name, data in files.items():
        target = Path(folder) / name
        write_whole(target, [data])
        written.append(target)
    return tuple(written)


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
