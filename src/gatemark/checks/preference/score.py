"""``gatemark score preference``: which side reviewers prefer, or how models rank."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gatemark.checks.preference.exam import ORDER
from gatemark.checks.preference.ranking import (
    PreferenceParameters,
    format_ranking,
    is_between_models,
    rank_models,
)
from gatemark.checks.score import ScoreReport, ScoreRequest, ScoreVerb, require_one_path
from gatemark.core.errors import UsageError
from gatemark.core.measurement import EvidenceFile
from gatemark.core.policy import Outcome
from gatemark.core.progress import Progress
from gatemark.evidence.exam import ExamRun
from gatemark.evidence.exam_suite import EvidenceRole
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.run_exam import run_exam
from gatemark.evidence.source import STDIN
from gatemark.report.words import NOT_MEASURED, VERDICT_WORDS, number
from gatemark.workspace import Workspace

PAIRWISE: Final = "pairwise"


class PreferenceScore(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the votes; the fields are the keys of the JSON document.

    Rates, interval and p-value are null if no item was decisive. ``first`` counts how often each
    side was shown first; ``position`` says whether that mattered.
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
    path: str,
    request: PreferenceParameters,
    workspace: Workspace,
    choices: ReadingChoices,
    on_progress: Progress | None = None,
) -> PreferenceScore:
    """Count the votes, one choice per item, and judge them."""
    options = {name: getattr(request, name) for name in ("alpha", "peeking", "min_decisive")}
    examined = run_exam(
        ExamRun(
            kind=PAIRWISE,
            options=options,
            files=[("records", path)],
            reading=choices,
            engine=workspace.engine,
            on_progress=on_progress,
        )
    )
    facts = dict(examined.report.facts)
    outcome, order = facts.pop("outcome"), examined.report.by_name[ORDER]
    if outcome == "pass" and order.value is not None and order.value > request.alpha:
        outcome = "inconclusive"
        facts["reason"] += (
            f", but not if being shown first or second decides ({ORDER} {order.value:.4g}); "
            "show each answer first as often as the other"
        )
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


def format_preference(scored: PreferenceScore) -> str:
    """Format the outcome for the terminal."""
    lines = []
    lines.append(f"{VERDICT_WORDS[scored.verdict]}  {scored.reason}\n")
    shown = NOT_MEASURED
    if scored.interval is not None and scored.win_rate is not None:
        low, high = scored.interval
        shown = f"{number(scored.win_rate)} [{number(low)}, {number(high)}]"
    p_value = NOT_MEASURED if scored.p_value is None else number(scored.p_value)
    rows = [
        ("items", f"{scored.items} ({scored.votes} votes, {scored.reviewers} reviewers)"),
        ("wins, losses, ties", f"{scored.wins}, {scored.losses}, {scored.ties}"),
        ("win rate", shown),
        ("one-sided p-value", p_value),
        ("log e-value", number(scored.log_e_value)),
    ]
    for name, text in rows:
        lines.append(f"{name:<20}{text}")
    lines.extend(f"caveat: {caveat}" for caveat in scored.caveats)
    return "\n".join(lines)


def _score_request(workspace: Workspace, request: ScoreRequest) -> ScoreReport:
    path = require_one_path(request)
    asked: PreferenceParameters = request.parameters
    if path != STDIN and is_between_models(path, request.reading):
        if asked.peeking:
            raise UsageError("--peeking is for votes between candidate and baseline")
        ranked = rank_models(path, asked, request.reading)
        return ScoreReport(
            document=ranked, verdict=ranked.verdict, text=lambda _color: format_ranking(ranked)
        )
    if asked.candidate is not None or asked.baseline is not None:
        raise UsageError(
            f"{path}: --candidate and --baseline name models; these votes are between candidate "
            "and baseline"
        )
    found = score_preference(path, asked, workspace, request.reading, request.on_progress)
    return ScoreReport(
        document=found, verdict=found.verdict, text=lambda _color: format_preference(found)
    )


SCORE = ScoreVerb(
    name="preference",
    kind=PAIRWISE,
    summary="Judge whether blind reviewers prefer the candidate.",
    help="""\
FILE holds gatemark.vote/1: lines of item, reviewer, choice (candidate, baseline or tie) and
first (the side shown first); plain, gzip or zstd, '-' is standard input. The votes on an item
count as one, by majority; a reviewer votes once per item. Ties decide nothing.

Lines of item, reviewer, model_a, model_b and winner (model_a, model_b or tie) are votes between
several models. They give a ranking by Bradley and Terry's model with intervals; --candidate
judges one model against --baseline, or against every other.

Exit 0 when the candidate is preferred or only a ranking was asked for, 1 when the baseline is
preferred, 3 when neither is shown, 2 bad input.

\b
Examples:
  gatemark score preference votes.jsonl
  gatemark score preference votes.jsonl --peeking --json
  gatemark score preference arena.jsonl --candidate small-4 --baseline small-3""",
    roles=(EvidenceRole("file", "Votes, one per line.", positional=True),),
    parameters=PreferenceParameters,
    score=_score_request,
    features=frozenset(),
)
