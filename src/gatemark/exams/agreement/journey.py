"""The journey of ``gatemark score agreement``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from gatemark.core.errors import UsageError
from gatemark.core.policy import Waiver
from gatemark.evidence.folds.run_exam import ExamOutcome, exam_job, examine_files
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.evidence.source import STDIN, read_expected_ids
from gatemark.exams.agreement.two_files import examine_joined
from gatemark.gate.judge_exam import EXPECTED_IDS, Scored, judge_exam, keep
from gatemark.workspace import Workspace

PAIRS, SCHOLAR, AUDITOR = "pairs", "scholar", "auditor"


def sit_agreement(
    workspace: Workspace, options: dict[str, Any], files: Mapping[str, str], choices: ReadingChoices
) -> ExamOutcome:
    """Sit the exam over one file of pairs, or over one file of judgements per validator."""
    job = exam_job("agreement", options, choices)
    if set(files) == {PAIRS}:
        return examine_files(job, [files[PAIRS]], choices, workspace.engine)
    if {SCHOLAR, AUDITOR} <= set(files) and PAIRS not in files:
        _refuse_one_file_twice(files)
        return examine_joined(job, files, choices)
    raise UsageError(
        f"agreement reads {PAIRS}, or {SCHOLAR} and {AUDITOR}; got {', '.join(sorted(files))}"
    )


def score_agreement(
    workspace: Workspace,
    options: dict[str, Any],
    choices: ReadingChoices,
    *,
    pairs: str | None = None,
    judgements: Mapping[str, str] | None = None,
    expected_ids: str | None = None,
    waivers: Sequence[Waiver] = (),
    seal: bool = False,
    title: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Scored:
    """Score merged pairs or one judgement file per validator, judge, and seal when asked."""
    judgements = judgements or {}
    if (pairs is None) == (not judgements):
        raise UsageError("give --pairs, or --scholar and --auditor")
    if judgements and not {SCHOLAR, AUDITOR} <= judgements.keys():
        raise UsageError("--scholar and --auditor come together")
    paths = [pairs] if pairs is not None else list(judgements.values())
    _refuse_one_file_twice(judgements)
    if seal and STDIN in paths:
        raise UsageError("sealed evidence must be a file; save standard input first")
    started_at = workspace.clock()
    pinned = None if expected_ids is None else read_expected_ids(expected_ids)
    job = exam_job("agreement", options, choices)
    if pairs is not None:
        examined = examine_files(
            job, paths, choices, workspace.engine, expected_ids=pinned, on_progress=on_progress
        )
    else:
        examined = examine_joined(job, judgements, choices, expected_ids=pinned)
    scored = judge_exam(
        "agreement",
        examined,
        workspace,
        started_at=started_at,
        waivers=waivers,
        title=title,
        kept=None if pinned is None else {EXPECTED_IDS: "\n".join(sorted(pinned)).encode()},
    )
    if seal:
        keep(scored, workspace, {path: path for path in paths})
    return scored


def _refuse_one_file_twice(judgements: Mapping[str, str]) -> None:
    """A file agrees with itself: two validators cannot share one."""
    for (name, path), (other, other_path) in combinations(judgements.items(), 2):
        both_exist = Path(path).exists() and Path(other_path).exists()
        if both_exist and Path(path).samefile(other_path):
            raise UsageError(f"{name} and {other} are the same file: {path}")
