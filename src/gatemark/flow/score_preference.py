"""The journey of ``gatemark score preference``: which of two blind reviewers prefer."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.evidence import EvidenceFile
from gatemark.core.verdict import Outcome
from gatemark.flow.admitted import Progress, admitted_batches
from gatemark.flow.evidence import digest_source, find_sources
from gatemark.flow.plugins import measures, schemas
from gatemark.flow.reading import ReadingChoices

VOTE_SCHEMA: Final = "gatemark.vote/1"
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
    request: PreferenceRequest, choices: ReadingChoices, on_progress: Progress | None = None
) -> PreferenceScore:
    """Count the votes, one choice per item, and judge them."""
    measure = measures().get("preference")
    # Loaded here, so that every other command lives on without this plugin.
    from gatemark.measures import preference  # noqa: PLC0415

    state = measure.zero()
    reviewers: set[str] = set()
    first: Counter[str] = Counter(candidate=0, baseline=0)
    form = schemas().get(VOTE_SCHEMA).form("vote")
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        (source,) = find_sources((request.path,), choices.limits, Path(folder))
        for batch in admitted_batches(source, form, choices, on_progress):
            votes = [vote for _, vote in batch]
            reviewers.update(vote.reviewer for vote in votes)
            first.update(vote.first for vote in votes)
            rows = [(vote.item, vote.reviewer, vote.choice, vote.first) for vote in votes]
            state = measure.step(state, rows)
        file = digest_source(source)
    ballot = preference.count_votes(state)
    found = preference.judge(
        state, alpha=request.alpha, peeking=request.peeking, min_decisive=request.min_decisive
    )
    return PreferenceScore(
        wins=found.wins,
        losses=found.losses,
        ties=found.ties,
        win_rate=found.win_rate,
        half_tie_win_rate=found.half_tie_win_rate,
        interval=found.interval,
        p_value=found.p_value,
        log_e_value=found.log_e_value,
        one_sided_log_e_value=found.one_sided_log_e_value,
        anytime_p_value=found.anytime_p_value,
        verdict=found.outcome,
        reason=found.reason,
        blockers=() if found.outcome == "pass" else (found.reason,),
        caveats=_caveats(ballot.position, first),
        alpha=request.alpha,
        peeking=request.peeking,
        min_decisive=request.min_decisive,
        items=found.wins + found.losses + found.ties,
        votes=ballot.votes,
        reviewers=len(reviewers),
        first=dict(first),
        position=msgspec.to_builtins(ballot.position),
        file=file,
    )


def _caveats(position: Any, first: Counter[str]) -> tuple[str, ...]:
    caveats = []
    if position.is_biased:
        caveats.append(
            f"position bias: the answer shown first won {position.first_win_rate:.3f} "
            f"of {position.decisive} decisive votes"
        )
    shown = first["candidate"], first["baseline"]
    if abs(shown[0] - shown[1]) > max(1, sum(shown) // 10):
        caveats.append(
            f"positions are not balanced: the candidate was shown first {shown[0]} times, "
            f"the baseline {shown[1]} times"
        )
    return tuple(caveats)
