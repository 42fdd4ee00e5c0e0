"""Findings of a closed review besides its verdict.

Agreement of reviewers, arbitration, vote distribution, caveats, and the ranking of several arms by
the Bradley-Terry model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final

import msgspec
import numpy as np

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Finding, Outcome, judge
from gatemark.evidence.exam_job import ExamJob, build_exam
from gatemark.evidence.measures import measures
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.release.review.create import find_lookers
from gatemark.release.review.open_stores import erased_pairs
from gatemark.release.review.plan import ReviewPair, StoredReview
from gatemark.release.review.unblind import CastVote, GoldRecord, OpenVote, find_undecided
from gatemark.statistics.bradley_terry import rank_sides
from gatemark.statistics.homogeneity import assess_homogeneity
from gatemark.statistics.preference import Choice, choose_majority
from gatemark.workspace import Workspace

Ratings = list[tuple[str | None, ...]]


def collect_shared_ratings(
    votes: Sequence[OpenVote], arbiter: str | None
) -> tuple[Ratings, list[tuple[str, str]]]:
    """Return the ratings of pairs that several people judged; for two people also as plain pairs.

    The arbiter's votes are left out: the arbiter only sees pairs without a majority.
    """
    people = sorted({vote.reviewer for vote in votes} - {arbiter})
    by_pair: dict[int, dict[str, str]] = {}
    for vote in votes:
        if vote.reviewer != arbiter:
            by_pair.setdefault(vote.number, {})[vote.reviewer] = vote.choice
    shared = [given for _, given in sorted(by_pair.items()) if len(given) > 1]
    rows: Ratings = [tuple(given.get(person) for person in people) for given in shared]
    pairs = [(given[people[0]], given[people[1]]) for given in shared] if len(people) == 2 else []
    return rows, pairs


def count_reviewer_votes(
    votes: Sequence[OpenVote], gold: Sequence[GoldRecord]
) -> tuple[dict[str, Any], ...]:
    """Return the counts of each reviewer, with the record on gold pairs."""
    rows = []
    for record in gold:
        choices = [vote.choice for vote in votes if vote.reviewer == record.reviewer]
        wins, losses = choices.count("candidate"), choices.count("baseline")
        rows.append(
            {
                "reviewer": record.reviewer,
                "votes": len(choices),
                "wins": wins,
                "losses": losses,
                "ties": choices.count("tie"),
                "win_rate": wins / (wins + losses) if wins + losses else None,
                "gold_right": record.right_count,
                "gold": record.gold_count,
                "gold_rate": record.right_rate,
                "left_out": record.is_left_out,
            }
        )
    return tuple(rows)


AGREEMENT: Final = "agreement"
AGREEMENT_MEASURES: Final = ("agreement", "label_agreement")
PAIR_RULES: Final = (
    "agreement.pa",
    "agreement.kappa",
    "agreement.label",
    "agreement.label_fails",
)
"""The rules of the agreement exam that use the labels of two people.

The others need texts, flags or a number of items that a review does not have.
"""
CHOICES: Final = ("candidate", "baseline", "tie")
SPREAD_ALPHA: Final = 0.01
SPREAD_VOTES_MIN: Final = 10
MAX_COUPLES: Final = 66
SEED: Final = 20_261_116
"""A fixed seed: the same votes always give the same numbers."""


class PairAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the agreement exam for two reviewers, over the pairs that both judged."""

    reviewers: tuple[str, str]
    n: int
    verdict: Outcome
    findings: tuple[Finding, ...]


class Arbitration(msgspec.Struct, frozen=True, kw_only=True):
    """The number of pairs without a majority, and how many of them the arbiter decided."""

    arbiter: str | None
    undecided: int
    decided: int


class VoteSpread(msgspec.Struct, frozen=True, kw_only=True):
    """Whether reviewers distribute their votes over the sides alike: Pearson's chi-square test.

    ``is_alike`` is None if it could not be judged; ``reason`` says why.
    """

    reviewers: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    statistic: float | None
    dof: int | None
    p_value: float | None
    method: str | None
    is_alike: bool | None
    reason: str


class OpenedReview(msgspec.Struct, frozen=True):
    """A review whose votes were opened with its checked key."""

    stored: StoredReview
    key: bytes
    pairs: dict[int, ReviewPair]
    cast: list[CastVote]
    votes: list[OpenVote]
    gold: list[GoldRecord]

    @property
    def counted(self) -> list[OpenVote]:
        """Return the votes of reviewers who were not excluded, without gold pairs."""
        out = {record.reviewer for record in self.gold if record.is_left_out}
        return [v for v in self.votes if not v.pair.is_gold and v.reviewer not in out]

    def between(self, left: str, right: str) -> list[OpenVote]:
        """Return the counted votes on pairs of two arms."""
        return [vote for vote in self.counted if vote.pair.arms == (left, right)]


def measure_agreement(opened: OpenedReview) -> tuple[Measurement, ...]:
    """Return alpha over all reviewers, and kappa and others if exactly two voted."""
    rows, pairs = collect_shared_ratings(opened.counted, opened.stored.plan.arbiter)
    found: list[Measurement] = []
    for name, ratings in (("krippendorff", rows), ("agreement", pairs)):
        if ratings and name in measures():
            measure = measures().get(name)
            found.extend(measure.finish(measure.step(measure.zero(), ratings)))
    return tuple(found)


def judge_pair_agreement(opened: OpenedReview) -> tuple[PairAgreement, ...]:
    """Run the agreement exam for every two reviewers with pairs in common."""
    if AGREEMENT not in measures():
        return ()
    exam = build_exam(ExamJob(AGREEMENT, {}, ReadingChoices()))
    rules = [rule for rule in exam.policy().rules if rule.id in PAIR_RULES]
    asked = [measures().get(name) for name in AGREEMENT_MEASURES if name in measures()]
    given: dict[str, dict[int, str]] = {}
    for vote in opened.counted:
        if vote.reviewer != opened.stored.plan.arbiter:
            given.setdefault(vote.reviewer, {})[vote.number] = vote.choice
    found = []
    for left, right in list(combinations(sorted(given), 2))[:MAX_COUPLES]:
        shared = sorted(given[left].keys() & given[right].keys())
        if not shared:
            continue
        rows = [(given[left][number], given[right][number]) for number in shared]
        numbers = {
            one.key: one
            for measure in asked
            for one in measure.finish(measure.step(measure.zero(), rows))
        }
        findings = tuple(finding for rule in rules for finding in judge(rule, numbers))
        verdicts = {finding.verdict for finding in findings if finding.rule in PAIR_RULES}
        worst: Outcome = "pass"
        if "inconclusive" in verdicts:
            worst = "inconclusive"
        held = {rule.id for rule in rules if rule.severity == "hold"}
        failed = {one.rule for one in findings if one.verdict == "fail"} & set(PAIR_RULES)
        if failed:
            worst = "inconclusive" if failed <= held else "fail"
        found.append(
            PairAgreement(reviewers=(left, right), n=len(shared), verdict=worst, findings=findings)
        )
    return tuple(found)


def count_arbitration(opened: OpenedReview) -> Arbitration:
    """Count the pairs without a majority, and how many of them the arbiter decided."""
    plan = opened.stored.plan
    gold = {number for number, pair in opened.pairs.items() if pair.is_gold}
    cast = [vote for vote in opened.cast if vote.reviewer != plan.arbiter]
    split = find_undecided(opened.key, cast, gold, plan)
    settled = {
        vote.number
        for vote in opened.votes
        if vote.reviewer == plan.arbiter and vote.choice != "tie"
    }
    return Arbitration(arbiter=plan.arbiter, undecided=len(split), decided=len(split & settled))


def compare_vote_spread(opened: OpenedReview) -> VoteSpread:
    """Test whether all reviewers with enough votes distribute them over the sides alike.

    Pairs are assigned at random, so a difference is one between people.
    """
    arbiter = opened.stored.plan.arbiter
    tables: dict[str, list[str]] = {}
    for vote in opened.counted:
        if vote.reviewer != arbiter:
            tables.setdefault(vote.reviewer, []).append(vote.choice)
    enough = sorted(name for name, cast in tables.items() if len(cast) >= SPREAD_VOTES_MIN)
    counts = tuple(tuple(tables[name].count(side) for side in CHOICES) for name in enough)
    if len(enough) < 2:
        reason = (
            f"could not be judged: {len(enough)} of {len(tables)} reviewers cast at least "
            f"{SPREAD_VOTES_MIN} votes that count, two are needed"
        )
        return VoteSpread(
            reviewers=tuple(enough),
            counts=counts,
            statistic=None,
            dof=None,
            p_value=None,
            method=None,
            is_alike=None,
            reason=reason,
        )
    found = assess_homogeneity(counts, np.random.default_rng(SEED))
    is_alike = found.p_value >= SPREAD_ALPHA
    word = (
        "spread their votes in the same way"
        if is_alike
        else "differ in how they spread their votes"
    )
    return VoteSpread(
        reviewers=tuple(enough),
        counts=counts,
        statistic=found.statistic,
        dof=found.dof,
        p_value=found.p_value,
        method=found.method,
        is_alike=is_alike,
        reason=f"{len(enough)} reviewers {word} (p {found.p_value:.4g} against {SPREAD_ALPHA:g})",
    )


def find_caveats(
    workspace: Workspace,
    opened: OpenedReview,
    spread: VoteSpread,
    couples: Sequence[PairAgreement],
) -> tuple[str, ...]:
    """Return what a reader of the outcome must know."""
    stored = opened.stored
    plan, closing = stored.plan, stored.closing
    found = [f"tell: {tell}" for tell in stored.facts["tells"]]
    voters = {vote.reviewer for vote in opened.votes}
    if stored.created_by in voters:
        found.append(f"{stored.created_by} made the review and voted in it")
    if closing is not None and closing.note:
        found.append(f"closed early by {closing.by}: {closing.note}")
    found.extend(
        f"{record.reviewer} was left out: {record.right_count} of {record.gold_count} gold "
        f"pairs right, at least {plan.gold_min_rate:.0%} are needed"
        for record in opened.gold
        if record.is_left_out
    )
    if plan.peeking and (seen := find_lookers(workspace, plan.name)):
        found.append(f"numbers were looked at before the end by {', '.join(sorted(seen))}")
    found.extend(
        f"pair {number} (item {opened.pairs[number].item}) was {erasure.words}"
        for number, erasure in sorted(erased_pairs(workspace, plan.name).items())
    )
    if spread.is_alike is False:
        found.append(spread.reason)
    found.extend(
        f"{' and '.join(couple.reviewers)} do not agree enough for the agreement exam "
        f"(n={couple.n})"
        for couple in couples
        if couple.verdict == "fail"
    )
    return tuple(found)


def rank_arms(opened: OpenedReview) -> dict[str, Any]:
    """Return all arms by strength; each pair counts once, by majority."""
    plan, votes = opened.stored.plan, opened.counted
    places = {arm: at for at, arm in enumerate(plan.arms)}
    items = {item: at for at, item in enumerate(sorted({vote.pair.item for vote in votes}))}
    by_pair: dict[int, list[OpenVote]] = {}
    for vote in votes:
        by_pair.setdefault(vote.number, []).append(vote)
    wins = np.zeros((len(items), len(places), len(places)))
    for cast in by_pair.values():
        pair = cast[0].pair
        left, right = (places[arm] for arm in pair.arms)
        choice: Choice = choose_majority([vote.choice for vote in cast])
        share = {"candidate": 1.0, "tie": 0.5, "baseline": 0.0}[choice]
        wins[items[pair.item], left, right] += share
        wins[items[pair.item], right, left] += 1 - share
    ranked: dict[str, Any] = msgspec.to_builtins(rank_sides(plan.arms, wins, seed=SEED))
    return ranked
