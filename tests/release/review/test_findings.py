from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chi2_contingency

from gatemark.release.review.close import CloseReview, close_review, review_outcome
from gatemark.release.review.create import ShownPair
from gatemark.release.review.findings import SPREAD_VOTES_MIN
from gatemark.workspace import Workspace

from .arms import make_review, prefers, vote_all


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(store=str(tmp_path / "store"), actor="ada", jobs=1)


def close(workspace: Workspace) -> Any:
    return close_review(workspace, CloseReview(review="letters"))


def of_items(share: Callable[[int], str]) -> Callable[[ShownPair], str]:
    """A reviewer whose wish depends on the number of the question."""

    def choose(pair: ShownPair) -> str:
        wish = share(int(str(pair.input).split()[-1]))
        return wish if wish == "both_good" else prefers(wish)(pair)

    return choose


def test_the_spread_of_votes_is_the_chi_square_of_an_independent_library(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, count=60, votes_per_pair=2)
    vote_all(workspace, "bob", of_items(lambda at: ("new", "old", "both_good")[at % 3]))
    vote_all(workspace, "cyd", of_items(lambda at: ("new", "new", "old", "both_good")[at % 4]))
    spread = close(workspace).spread
    assert spread.counts == ((20, 20, 20), (30, 15, 15))
    oracle = chi2_contingency(spread.counts, correction=False)
    assert spread.statistic == pytest.approx(oracle.statistic, rel=1e-12)
    assert spread.p_value == pytest.approx(oracle.pvalue, rel=1e-9)
    assert (spread.dof, spread.method, spread.is_alike) == (oracle.dof, "chi_square", True)


def test_reviewers_who_vote_against_each_other_are_told_of(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, count=24, votes_per_pair=2)
    vote_all(workspace, "bob", prefers("new"))
    vote_all(workspace, "cyd", prefers("old"))
    outcome = close(workspace)
    assert outcome.spread.is_alike is False
    assert any("differ in how they spread their votes" in caveat for caveat in outcome.caveats)
    (couple,) = outcome.pairs_agreement
    assert (couple.reviewers, couple.n, couple.verdict) == (("bob", "cyd"), 24, "fail")
    assert outcome.arbitration.undecided == 24


@pytest.mark.parametrize(("count", "is_judged"), [(SPREAD_VOTES_MIN, True), (9, False)])
def test_few_votes_leave_the_spread_unjudged(
    workspace: Workspace, tmp_path: Path, count: int, is_judged: bool
) -> None:
    make_review(workspace, tmp_path, count=count, votes_per_pair=2)
    for person in ("bob", "cyd"):
        vote_all(workspace, person, prefers("new"))
    spread = close(workspace).spread
    assert (spread.is_alike is not None) is is_judged
    assert ("could not be judged" in spread.reason) is not is_judged


@pytest.mark.parametrize(("slips", "verdict"), [(0, "pass"), (1, "pass"), (12, "fail")])
def test_the_agreement_exam_judges_every_two_reviewers(
    workspace: Workspace, tmp_path: Path, slips: int, verdict: str
) -> None:
    def base(at: int) -> str:
        return "new" if at % 2 else "old"

    make_review(workspace, tmp_path, count=40, votes_per_pair=2)
    vote_all(workspace, "bob", of_items(base))
    vote_all(workspace, "cyd", of_items(lambda at: base(at + 1) if at < slips else base(at)))
    (couple,) = close(workspace).pairs_agreement
    rules = {finding.rule: finding for finding in couple.findings}
    assert rules["agreement.pa"].observed == pytest.approx(1 - slips / 40)
    assert couple.verdict == verdict


def test_one_reviewer_alone_has_nobody_to_agree_with(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path)
    vote_all(workspace, "bob", prefers("new"))
    assert close(workspace).pairs_agreement == ()


def test_the_arbiter_settles_what_is_split(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path, count=10, votes_per_pair=2, arbiter="zoe")
    vote_all(workspace, "bob", prefers("new"))
    vote_all(workspace, "cyd", of_items(lambda at: "old" if at < 4 else "new"))
    vote_all(workspace, "zoe", prefers("new"))
    told = close(workspace).arbitration
    assert (told.arbiter, told.undecided, told.decided) == ("zoe", 4, 4)


def test_who_only_looks_at_an_outcome_seals_nothing(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path)
    vote_all(workspace, "bob", prefers("new"))
    sealed = close(workspace).candidates[0].result_id
    head = workspace.events.head()
    looked = review_outcome(workspace, "letters", may_seal=False)
    assert looked.candidates[0].result_id == sealed
    assert workspace.events.head() == head
