"""The journey of ``gatemark score preference``: which of two blind reviewers prefer."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gatemark.core.measurement import EvidenceFile
from gatemark.core.policy import Outcome
from gatemark.core.progress import Progress
from gatemark.evidence.folds.run_exam import exam_job, examine_files
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.workspace import Workspace

PAIRWISE: Final = "pairwise"
MIN_DECISIVE: Final = 20


class PreferenceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Whose votes, and how sure they must be."""

    path: str
    alpha: float = 0.05
    peeking: bool = False
    min_decisive: int = MIN_DECISIVE


class PreferenceScore(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the votes say; the fields are the keys of the JSON document.

    Rates, interval and p-value are null when no item was decisive. ``first`` counts how often
    each side was shown first, ``position`` tells whether that mattered.
    """

    wins: int
    losses: int
    ties: int
    win_rate: float | None
    half_tie_win_rate: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    log_e_value: float
    one_sided_log_e_value: float
    anytime_p_value: float
    verdict: Outcome
    reason: str
    blockers: tuple[str, ...]
    caveats: tuple[str, ...]
    alpha: float
    peeking: bool
    min_decisive: int
    items: int
    votes: int
    reviewers: int
    first: dict[str, int]
    position: dict[str, Any]
    file: EvidenceFile


def score_preference(
    request: PreferenceRequest,
    workspace: Workspace,
    choices: ReadingChoices,
    on_progress: Progress | None = None,
) -> PreferenceScore:
    """Count the votes, one choice per item, and judge them."""
    options = {
        "alpha": request.alpha,
        "peeking": request.peeking,
        "min_decisive": request.min_decisive,
    }
    job = exam_job(PAIRWISE, options, choices)
    examined = examine_files(
        job, [request.path], choices, workspace.engine, on_progress=on_progress
    )
    facts = dict(examined.report.facts)
    outcome = facts.pop("outcome")
    (file,) = examined.evidence.files
    return msgspec.convert(
        {
            **facts,
            **options,
            "verdict": outcome,
            "blockers": () if outcome == "pass" else (facts["reason"],),
            "file": msgspec.to_builtins(file),
        },
        PreferenceScore,
    )
