"""``pairwise``: blind votes between two answers, judged over items, not votes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec

from gatemark.checks.preference import measure
from gatemark.core.canonical import plain
from gatemark.core.errors import InvalidValueError, UsageError
from gatemark.core.fold import AnyMeasure, add_counts
from gatemark.core.measurement import Evidence, Measurement, measured, unmeasured
from gatemark.core.policy import Policy, Rule, Verdict
from gatemark.core.reason import ReasonKind
from gatemark.core.registry import Registry
from gatemark.core.result import Table
from gatemark.evidence.exam import Exam, ExamOutcome, ExamReport, ExamRun
from gatemark.evidence.exam_options import option
from gatemark.evidence.exam_suite import EvidenceRole, ExamSuite
from gatemark.evidence.inputs import normalize_ids
from gatemark.evidence.run_exam import examine_files
from gatemark.statistics.preference import (
    MIN_DECISIVE,
    PositionBias,
    Preference,
    judge_preference,
    order_p_value,
    win_p_value,
)

MEASURE = "preference"
PREFERRED = "preferred"
ORDER = "order_p_value"
NO_DECISIVE_ITEMS: Final = ReasonKind("no_decisive_items", "no decisive items")
_SIGNS = {"pass": 1.0, "fail": -1.0}
_CHANCE = 3.3
"""Standard deviations that a fair coin stays within in 999 of 1,000 cases."""


class PreferenceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The significance level of each one-sided claim, and whether results may be read early.

    ``coverage_min`` is the share of pinned items that must have votes. ``drawn_positions`` says
    that a coin decided for each vote which answer was shown first, so the counts differ by chance.
    """

    alpha: Annotated[float, option("Significance level of each one-sided claim.")] = 0.05
    peeking: Annotated[
        bool,
        option("Results may be read before all votes are in: decided by an anytime-valid e-value."),
    ] = False
    min_decisive: Annotated[int, option("Minimum number of items that are not ties.")] = (
        MIN_DECISIVE
    )
    coverage_min: Annotated[float, option("Minimum share of pinned items with votes.")] = 1.0
    drawn_positions: Annotated[
        bool, option("Set by blind reviews alone: a coin per vote decided which side came first.")
    ] = False

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 0.5:
            raise InvalidValueError(f"alpha must be inside (0, 0.5), got {self.alpha}")
        if self.min_decisive < 1:
            raise InvalidValueError(f"min_decisive must be >= 1, got {self.min_decisive}")
        if not 0 <= self.coverage_min <= 1:
            raise InvalidValueError(f"coverage_min must be in [0, 1], got {self.coverage_min}")


class PreferenceExamState(msgspec.Struct):
    """The counted votes, who cast them, and which side was shown first."""

    votes: measure.PreferenceState
    reviewers: set[str] = set()
    first: dict[str, int] = {}


class PairwiseExam(Exam[PreferenceExamState]):
    """Judge whether reviewers prefer the candidate's answers.

    A preference must be more than the habit of choosing the answer shown first, or second, unless
    a coin drew the positions: then they favour no side.
    """

    schema = "gatemark.vote/1"
    form = "vote"
    state = PreferenceExamState

    def __init__(self, options: PreferenceOptions, measures: Registry[AnyMeasure]) -> None:
        self.options = options
        self._measures = measures

    def zero(self, shard: int) -> PreferenceExamState:  # noqa: ARG002 - votes have no order to keep
        return PreferenceExamState(votes=measure.PreferenceState())

    def step(self, state: PreferenceExamState, batch: Sequence[Any]) -> PreferenceExamState:
        rows = [(vote.item, vote.reviewer, vote.choice, vote.first) for vote in batch]
        state.votes = measure.step(state.votes, rows)
        state.reviewers.update(normalize_ids([vote.reviewer for vote in batch]))
        for vote in batch:
            state.first[vote.first] = state.first.get(vote.first, 0) + 1
        return state

    def merge(self, left: PreferenceExamState, right: PreferenceExamState) -> PreferenceExamState:
        return PreferenceExamState(
            votes=measure.merge(left.votes, right.votes),
            reviewers=left.reviewers | right.reviewers,
            first=add_counts(left.first, right.first),
        )

    def policy(self) -> Policy:
        options = self.options
        least = options.coverage_min
        rules = [
            Rule("pairwise.coverage", "evidence.coverage", ">=", least, severity="hold"),
            Rule("pairwise.preferred", PREFERRED, ">=", 1.0),
        ]
        if not options.drawn_positions:
            rules.append(Rule("pairwise.order", ORDER, "<=", options.alpha, severity="hold"))
        return Policy(name="pairwise", rules=tuple(rules), settings=plain(options))

    def finish(self, state: PreferenceExamState) -> ExamReport:
        counted = measure.count_votes(state.votes)
        options = self.options
        found = judge_preference(
            counted.wins,
            counted.losses,
            counted.ties,
            alpha=options.alpha,
            peeking=options.peeking,
            min_decisive=options.min_decisive,
        )
        numbers: tuple[Measurement, ...] = ()
        if MEASURE in self._measures:
            numbers = self._measures.get(MEASURE).finish(state.votes)
        first = {side: state.first.get(side, 0) for side in ("candidate", "baseline")}
        facts = {
            **msgspec.to_builtins(found),
            "reason": str(found.reason),
            "items": found.wins + found.losses + found.ties,
            "votes": counted.votes,
            "reviewers": len(state.reviewers),
            "first": first,
            "position": msgspec.to_builtins(counted.position),
            "caveats": list(_find_caveats(counted.position, first, options)),
        }
        if not options.drawn_positions:
            numbers = (*numbers, _measure_order(found, counted.orders))
        return ExamReport(
            measurements=(_measure_preferred(found), *numbers),
            figures=(_draw_table(found, facts),),
            attachments={},
            facts=facts,
            score=next((n for n in numbers if n.name == "half_tie_win_rate"), None),
        )

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        return {
            **report.facts,
            "verdict": verdict.outcome,
            "blockers": list(verdict.blockers),
            "evidence": msgspec.to_builtins(evidence.files),
        }


def _measure_preferred(found: Preference) -> Measurement:
    """Return 1 if the candidate is preferred, -1 if the baseline is, else a reason."""
    decisive = found.wins + found.losses
    if found.outcome not in _SIGNS:
        return unmeasured(
            PREFERRED, found.reason, direction="higher_is_better", n=decisive, unit="sign"
        )
    sign = _SIGNS[found.outcome]
    return measured(PREFERRED, sign, n=decisive, direction="higher_is_better", unit="sign")


def _measure_order(found: Preference, orders: measure.Orders) -> Measurement:
    """Return the chance of such a preference, if positions may have helped one side."""
    decisive = found.wins + found.losses
    if not decisive:
        return unmeasured(ORDER, NO_DECISIVE_ITEMS(), direction="neutral")
    is_balanced = abs(orders.candidate_first[1] - orders.baseline_first[1]) <= 1
    chance = win_p_value(found.wins, found.losses) if is_balanced else order_p_value(*orders)
    return measured(ORDER, chance, n=decisive, direction="neutral")


def _find_caveats(
    position: PositionBias, first: dict[str, int], options: PreferenceOptions
) -> tuple[str, ...]:
    caveats = []
    if position.is_biased:
        caveats.append(
            f"position bias: the answer shown first won {position.first_win_rate:.3f} "
            f"of {position.decisive} decisive votes"
        )
    shown = first["candidate"], first["baseline"]
    chance = _CHANCE * math.sqrt(sum(shown)) if options.drawn_positions else 1
    if abs(shown[0] - shown[1]) > max(chance, sum(shown) // 10):
        caveats.append(
            f"positions are not balanced: the candidate was shown first {shown[0]} times, "
            f"the baseline {shown[1]} times"
        )
    return tuple(caveats)


def _draw_table(found: Preference, facts: dict[str, Any]) -> Table:
    interval = found.interval
    rows = (
        ("items won, lost, tied", f"{found.wins}, {found.losses}, {found.ties}"),
        ("win rate", None if found.win_rate is None else round(found.win_rate, 4)),
        (
            "Wilson interval",
            None if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}",
        ),
        ("one-sided p", None if found.p_value is None else round(found.p_value, 6)),
        ("log e-value", round(found.log_e_value, 4)),
        ("votes, reviewers", f"{facts['votes']}, {facts['reviewers']}"),
        ("outcome", str(found.reason)),
        *(("caveat", caveat) for caveat in facts["caveats"]),
    )
    return Table("Blind review", ("fact", "value"), rows, len(rows))


def examine_votes(run: ExamRun) -> ExamOutcome:
    """Run the exam over votes. Pinned items say how many items were to be judged.

    If peeking is allowed, so is stopping early; otherwise items without votes are missing.
    """
    if len(run.files) != 1:
        raise UsageError(f"{run.kind} reads one file of votes")
    # The pins name items, not votes.
    found = examine_files(replace(run, expected_ids=None))
    if run.expected_ids is None:
        return found
    judged, pinned = found.report.facts["items"], len(run.expected_ids)
    is_open_ended = run.options.get("peeking") is True
    evidence = msgspec.structs.replace(
        found.evidence,
        usable=judged,
        missing=run.left_out + (0 if is_open_ended else pinned - judged),
        expected=pinned + run.left_out,
    )
    return msgspec.structs.replace(found, evidence=evidence)


SUITE = ExamSuite(
    kind="pairwise",
    summary="Do blind reviewers prefer the candidate's answers to the baseline's?",
    options=PreferenceOptions,
    build=PairwiseExam,
    roles=(EvidenceRole("records", "Votes, one per line.", positional=True),),
    examine=examine_votes,
    own_options={"drawn_positions": "only a blind review draws positions by a coin and can say so"},
)
