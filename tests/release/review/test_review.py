from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.checks.preference.score import PreferenceParameters, score_preference
from gatemark.core.errors import (
    BadInputError,
    ConflictError,
    IntegrityError,
    InvalidValueError,
    NotAllowedError,
    OtherRulesError,
    RefusedError,
    UsageError,
)
from gatemark.core.request_fields import read_request
from gatemark.core.rules import RulesVersions
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.review.close import (
    CloseReview,
    close_review,
    export_votes,
    review_outcome,
)
from gatemark.release.review.create import (
    CreateReview,
    VoteRequest,
    cast_vote,
    create_review,
    next_pair,
    shown_pair,
)
from gatemark.release.review.events import (
    REVIEW_CREATED,
    REVIEW_LOOKED_AT,
    REVIEW_UNBLINDED,
    VOTE_CAST,
)
from gatemark.release.review.items import ItemAnswer, match_arms
from gatemark.release.review.open_stores import reviews_of
from gatemark.release.review.status import LookAtNumbers, look_at_numbers, review_status
from gatemark.workspace import Workspace

from .arms import KEY, make_review, prefers, vote_all, write_arm, write_gold


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(store=str(tmp_path / "store"), actor="ada", jobs=1)


def close(workspace: Workspace, early: str | None = None) -> Any:
    return close_review(workspace, CloseReview(review="letters", early=early))


def kinds(workspace: Workspace) -> list[str]:
    return [event.kind for event, _ in workspace.events.events(subject="review:letters")]


def test_a_blind_review_goes_from_two_files_to_a_sealed_verdict(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path)
    seen = vote_all(workspace, "bob", prefers("new"))
    outcome = close(workspace)
    (found,) = outcome.candidates
    assert outcome.verdict == found.verdict == "pass"
    assert (found.numbers["wins"], found.numbers["losses"]) == (24, 0)
    assert workspace.results.get(found.result_id).verdict == "pass"
    shown = Counter(str(pair.a).split()[0] for pair in seen)
    assert found.numbers["first"] == {"candidate": shown["new"], "baseline": shown["old"]}
    assert found.numbers["caveats"] == []
    assert kinds(workspace) == [REVIEW_CREATED, *[VOTE_CAST] * 24, REVIEW_UNBLINDED]


def firsts(workspace: Workspace, reviewer: str) -> list[str]:
    return [str(pair.a).split()[0] for pair in vote_all(workspace, reviewer, prefers("new"))]


def in_blocks(seen: list[str]) -> list[set[str]]:
    return [set(seen[at : at + 2]) for at in range(0, len(seen), 2)]


def test_a_shown_position_tells_nothing_about_the_next(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, count=40, votes_per_pair=2)
    for reviewer in ("bob", "cyd"):
        seen = firsts(workspace, reviewer)
        assert set(map(frozenset, in_blocks(seen))) == {
            frozenset({"new"}),
            frozenset({"old"}),
            frozenset({"new", "old"}),
        }
    outcome = close(workspace)
    assert outcome.verdict == "pass"
    assert verify(workspace, VerifyRequest()).issues == ()


def test_nobody_chooses_the_rules_of_a_review(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="unknown field"):
        read_request(CreateReview, {"name": "letters", "rules": 2})
    make_review(workspace, tmp_path)
    assert reviews_of(workspace).get("letters").plan.rules == 1
    vote_all(workspace, "bob", prefers("new"))
    assert close(workspace).rules == 1


def under_rules(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Act as another build, whose rules of reviews have this version."""
    rules = RulesVersions("review", version, frozenset(range(1, version + 1)))
    for module in ("create", "close", "table_check"):
        monkeypatch.setattr(f"gatemark.release.review.{module}.REVIEW_RULES", rules)


def test_an_open_review_of_other_rules_is_neither_shown_nor_closed(
    workspace: Workspace, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as another:
        under_rules(another, 2)
        make_review(workspace, tmp_path)
        pair = next_pair(workspace, "letters", "bob")
        assert pair is not None
    said = "recorded under review rules 2, not decided again"
    with pytest.raises(OtherRulesError, match=said):
        next_pair(workspace, "letters", "bob")
    with pytest.raises(OtherRulesError, match=said):
        cast_vote(
            workspace, VoteRequest(review="letters", actor="bob", token=pair.token, answered="a")
        )
    with pytest.raises(OtherRulesError, match=said):
        close(workspace, early="now")
    assert REVIEW_UNBLINDED not in kinds(workspace)
    report = verify(workspace, VerifyRequest())
    assert (report.verdict, report.issues) == ("inconclusive", ())
    assert any(f"review letters: {said}" in why for why in report.unjudged)


def test_a_closed_review_of_other_rules_is_checked_as_recorded(
    workspace: Workspace, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as another:
        under_rules(another, 2)
        make_review(workspace, tmp_path)
        vote_all(workspace, "bob", prefers("new"))
        assert close(workspace).verdict == "pass"
    with pytest.raises(OtherRulesError, match="recorded under review rules 2"):
        review_outcome(workspace, "letters")
    report = verify(workspace, VerifyRequest())
    assert (report.verdict, report.issues) == ("inconclusive", ())
    assert any("review letters: recorded under review rules 2" in why for why in report.unjudged)
    with workspace.store.database.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER review_votes_no_update")
        connection.exec_driver_sql("UPDATE review_votes SET answered = 'both_bad'")
    assert verify(workspace, VerifyRequest()).verdict == "fail"


@pytest.mark.parametrize("version", [0, -1])
def test_a_review_of_rules_that_were_never_released_is_a_forgery(
    workspace: Workspace, tmp_path: Path, version: int
) -> None:
    with pytest.MonkeyPatch.context() as another:
        under_rules(another, version)
        make_review(workspace, tmp_path)
    said = f"review rules {version} do not exist"
    with pytest.raises(IntegrityError, match=said):
        next_pair(workspace, "letters", "bob")
    with pytest.raises(IntegrityError, match=said):
        close(workspace, early="now")
    assert any(said in one.message for one in verify(workspace, VerifyRequest()).issues)


@pytest.mark.parametrize("forged", ["2", "0", "null", '"1"'])
def test_another_number_in_the_row_gains_nothing(
    workspace: Workspace, tmp_path: Path, forged: str
) -> None:
    """Not exit 3, which would leave the votes unchecked: the ledger knows the plan."""
    make_review(workspace, tmp_path)
    vote_all(workspace, "bob", prefers("old"))
    plan = bytes(reviews_of(workspace).stored_rows("letters").review.plan)
    assert plan.count(b'"rules":1') == 1
    with workspace.store.database.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER reviews_no_update")
        edited = plan.replace(b'"rules":1', b'"rules":' + forged.encode())
        connection.exec_driver_sql("UPDATE reviews SET plan = ?", (edited,))
    with pytest.raises(IntegrityError):
        close(workspace)
    report = verify(workspace, VerifyRequest())
    assert report.verdict == "fail"
    assert any("its rules differ from those recorded" in one.message for one in report.issues)


def test_the_payload_gives_no_hint(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path, gold=write_gold(tmp_path, 3, 1))
    seen = vote_all(workspace, "bob", prefers("new", "good"))
    assert len(seen) == 28
    shapes = {tuple(msgspec.to_builtins(pair)) for pair in seen}
    assert len(shapes) == 1
    for pair in seen:
        told = msgspec.to_builtins(pair)
        assert re.fullmatch(r"[0-9a-f]{32}", told["token"])
        rest = str({key: told[key] for key in told if key not in {"input", "a", "b"}})
        assert not re.search(r"q0|g0|gold|new|old|candidate|baseline", rest)
    assert len({pair.token for pair in seen}) == len(seen)


def test_the_key_is_not_in_the_ledger_before_the_end_and_opens_the_commitment_after_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path)
    told = [payload for _, payload in workspace.events.events(subject="review:letters")]
    assert KEY.hex() not in str(told)
    vote_all(workspace, "bob", prefers("new"))
    outcome = close(workspace)
    _, last = list(workspace.events.events(subject="review:letters"))[-1]
    assert last is not None
    assert last["key"] == outcome.key == KEY.hex()
    assert last["commitment"] == told[0]["commitment"] if told[0] else False
    assert last["ballots_digest"] == outcome.ballots_digest


def test_everything_sealed_is_refused_while_the_review_is_open(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path)
    for ask in (review_outcome, export_votes):
        with pytest.raises(RefusedError, match="sealed"):
            ask(workspace, "letters")
    with pytest.raises(NotAllowedError, match="numbers are hidden until the review is closed"):
        look_at_numbers(workspace, LookAtNumbers(review="letters"))
    status = review_status(workspace, "letters")
    assert status.numbers is None
    assert status.hidden_because == "numbers are hidden until the review is closed"
    assert KEY.hex() not in str(status)


def test_votes_can_be_changed_and_every_version_is_kept(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path)
    pair = next_pair(workspace, "letters", "bob")
    assert pair is not None
    assert next_pair(workspace, "letters", "bob") == pair
    versions = [
        cast_vote(
            workspace,
            VoteRequest(review="letters", actor="bob", token=pair.token, answered=answered),
        ).version
        for answered in ("a", "a", "b")
    ]
    assert versions == [1, 1, 2]
    assert shown_pair(workspace, "letters", "bob", pair.token).answered == "b"
    following = next_pair(workspace, "letters", "bob")
    assert following is not None
    assert following.token != pair.token


def test_a_closed_review_takes_no_more_votes(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path)
    seen = vote_all(workspace, "bob", prefers("new"))
    close(workspace)
    for act in (
        lambda: next_pair(workspace, "letters", "cyd"),
        lambda: cast_vote(
            workspace,
            VoteRequest(review="letters", actor="bob", token=seen[0].token, answered="b"),
        ),
    ):
        with pytest.raises(RefusedError, match="closed"):
            act()
    head = workspace.events.head()
    assert close(workspace) == close(workspace)
    assert workspace.events.head() == head
    assert kinds(workspace).count(REVIEW_UNBLINDED) == 1


def test_only_pairs_that_were_shown_to_a_reviewer_can_be_voted_on(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path)
    pair = next_pair(workspace, "letters", "bob")
    assert pair is not None
    for reviewer, token in (("cyd", pair.token), ("bob", "0" * 32), ("bob", "é")):
        with pytest.raises(UsageError, match="has not seen pair"):
            cast_vote(
                workspace,
                VoteRequest(review="letters", actor=reviewer, token=token, answered="a"),
            )


def test_a_skip_needs_a_reason_and_leaves_the_pair_to_others(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, count=1)
    pair = next_pair(workspace, "letters", "bob")
    assert pair is not None
    request = VoteRequest(review="letters", actor="bob", token=pair.token, answered="skip")
    with pytest.raises(InvalidValueError, match="reason"):
        cast_vote(workspace, request)
    cast_vote(workspace, msgspec.structs.replace(request, reason="not my field"))
    assert next_pair(workspace, "letters", "bob") is None
    assert next_pair(workspace, "letters", "cyd") is not None
    assert review_status(workspace, "letters").skips == 1


def test_an_early_end_is_refused_without_a_reason_and_holds_a_pass(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, count=26)
    for _ in range(25):
        pair = next_pair(workspace, "letters", "bob")
        assert pair is not None
        cast_vote(
            workspace,
            VoteRequest(
                review="letters",
                actor="bob",
                token=pair.token,
                answered=prefers("new")(pair),  # type: ignore[arg-type]
            ),
        )
    with pytest.raises(RefusedError, match="still needs votes on 1 pairs"):
        close(workspace)
    outcome = close(workspace, early="the office moves")
    assert outcome.verdict == "inconclusive"
    assert outcome.candidates[0].items_missing == 1
    assert any("coverage" in blocker for blocker in outcome.candidates[0].blockers)
    assert "closed early by ada: the office moves" in outcome.caveats


def test_missing_items_may_be_tolerated_by_the_plan(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path, count=25, coverage_min=0.95)
    for _ in range(24):
        pair = next_pair(workspace, "letters", "bob")
        assert pair is not None
        answered: Any = prefers("new")(pair)
        cast_vote(
            workspace,
            VoteRequest(review="letters", actor="bob", token=pair.token, answered=answered),
        )
    assert close(workspace, early="one is broken").verdict == "pass"


def test_peeking_is_for_people_who_do_not_vote_and_is_noted(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, peeking=True)
    vote_all(workspace, "bob", prefers("new"))
    with pytest.raises(NotAllowedError, match="bob votes in this review and must stay blind"):
        look_at_numbers(workspace.acting_as("bob"), LookAtNumbers(review="letters"))
    looked = look_at_numbers(workspace.acting_as("eve"), LookAtNumbers(review="letters"))
    assert looked.numbers["new"]["wins"] == 24
    assert kinds(workspace)[-1] == REVIEW_LOOKED_AT
    with pytest.raises(RefusedError, match="no longer blind"):
        next_pair(workspace, "letters", "eve")
    outcome = close(workspace)
    assert outcome.verdict == "pass"
    assert "numbers were looked at before the end by eve" in outcome.caveats


def test_reviewers_who_fail_gold_pairs_are_left_out_by_the_rule_of_the_plan(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, votes_per_pair=2, gold=write_gold(tmp_path, 3, 1))
    vote_all(workspace, "bob", prefers("new", "good"))
    vote_all(workspace, "cyd", prefers("old", "poor"))
    outcome = close(workspace)
    assert outcome.verdict == "pass"
    rows = {row["reviewer"]: row for row in outcome.reviewers}
    assert (rows["bob"]["gold_right"], rows["bob"]["left_out"]) == (4, False)
    assert (rows["cyd"]["gold_right"], rows["cyd"]["left_out"]) == (1, True)
    assert b"cyd" not in export_votes(workspace, "letters")


def test_an_arbiter_sees_only_what_the_others_left_undecided(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, votes_per_pair=2, arbiter="zoe")
    assert next_pair(workspace, "letters", "zoe") is None
    vote_all(workspace, "bob", prefers("new"))
    split = {f"question {at}" for at in range(4)}
    vote_all(workspace, "cyd", lambda pair: prefers("old" if pair.input in split else "new")(pair))
    assert review_status(workspace, "letters").undecided == 4
    assert len(vote_all(workspace, "zoe", prefers("new"))) == 4
    outcome = close(workspace)
    assert outcome.candidates[0].numbers["wins"] == 24
    numbers = {number.name: number for number in outcome.agreement}
    assert numbers["percent_agreement"].value == pytest.approx(20 / 24)
    assert numbers["percent_agreement"].n == 24


def test_exported_votes_score_the_same(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path, count=30)
    votes = iter(range(30))
    vote_all(workspace, "bob", lambda pair: "both_bad" if next(votes) < 4 else prefers("new")(pair))
    outcome = close(workspace)
    path = tmp_path / "votes.jsonl"
    path.write_bytes(export_votes(workspace, "letters"))
    scored = score_preference(str(path), PreferenceParameters(), workspace, ReadingChoices())
    numbers = outcome.candidates[0].numbers
    for name in ("wins", "losses", "ties", "win_rate", "p_value", "log_e_value", "first"):
        assert getattr(scored, name) == numbers[name]
    assert scored.interval == pytest.approx(numbers["interval"])
    assert outcome.ties == {"both_good": 0, "both_bad": 4}
    assert scored.verdict == outcome.verdict


def test_several_candidates_are_ranked_and_share_the_level(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, count=24, arms=("best", "next", "last"))
    vote_all(workspace, "bob", prefers("best", "next", "last"))
    outcome = close(workspace)
    assert [side["name"] for side in outcome.ranking["sides"]] == ["best", "next", "last"]
    assert {found.candidate: found.verdict for found in outcome.candidates} == {
        "best": "pass",
        "next": "pass",
    }
    policy = workspace.results.get(outcome.candidates[0].result_id).policy
    assert policy.settings["alpha"] == pytest.approx(0.025)


@pytest.mark.parametrize("early", [None, "why not"])
def test_strangers_cannot_vote_or_close(
    workspace: Workspace, tmp_path: Path, early: str | None
) -> None:
    make_review(workspace, tmp_path, reviewers=("bob",))
    with pytest.raises(RefusedError, match="eve is not a reviewer"):
        next_pair(workspace, "letters", "eve")
    other = Workspace(store=str(tmp_path / "store"), actor="eve", jobs=1)
    with pytest.raises(RefusedError, match="eve must be pack_owner or evaluator"):
        close(other, early)


def test_a_review_without_votes_is_inconclusive(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path)
    outcome = close(workspace, early="nobody came")
    assert outcome.verdict == "inconclusive"
    assert outcome.candidates[0].blockers == ("no vote on new against old counts",)
    assert outcome.candidates[0].result_id is None


def test_another_key_than_the_sealed_one_does_not_verify(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path)
    vote_all(workspace, "bob", prefers("new"))
    with workspace.store.database.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER reviews_no_update")
        connection.exec_driver_sql("UPDATE reviews SET sealed_key = zeroblob(32)")
    with pytest.raises(IntegrityError, match="does not verify"):
        close(workspace)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"count": 3}, "lacks item"),
        ({"input": "another"}, "different inputs"),
        ({"output": None}, "nothing to review"),
    ],
)
def test_arms_that_do_not_fit_are_refused(
    workspace: Workspace, tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    count = change.pop("count", 4)
    files = {
        "new": write_arm(tmp_path, "new", 4),
        "old": write_arm(tmp_path, "old", count, **change),
    }
    request = CreateReview(name="letters", candidates=("new",), baseline="old", files=files)
    with pytest.raises(BadInputError, match=problem):
        create_review(workspace, request)
    assert reviews_of(workspace).names() == []


def test_a_review_is_never_replaced(workspace: Workspace, tmp_path: Path) -> None:
    make_review(workspace, tmp_path)
    with pytest.raises(RefusedError, match="already"):
        make_review(workspace, tmp_path)


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_every_store_keeps_reviews_and_refuses_edits(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = str(tmp_path / "store")
    if place == "postgresql":
        new_url: Callable[[], str] = request.getfixturevalue("new_postgres_url")
        store = new_url()
    workspace = Workspace(store=store, actor="ada", jobs=1)
    make_review(workspace, tmp_path, gold=write_gold(tmp_path, 2, 1))
    vote_all(workspace, "bob", prefers("new", "good"))
    for table in ("reviews", "review_pairs", "review_shows", "review_votes"):
        with (
            pytest.raises((ConflictError, BadInputError)),
            workspace.store.database.writing() as connection,
        ):
            connection.exec_driver_sql(f"DELETE FROM {table}")
    assert close(workspace).verdict == "pass"
    assert workspace.events.missing_guards() == []


@pytest.mark.parametrize("size", [3_000_000, 50_000_000])
def test_a_sample_that_nobody_could_read_is_refused_in_words(
    workspace: Workspace, tmp_path: Path, size: int
) -> None:
    files = {arm: write_arm(tmp_path, arm, 1, output="x" * size) for arm in ("new", "old")}
    request = CreateReview(name="huge", candidates=("new",), baseline="old", files=files)
    with pytest.raises((BadInputError, InvalidValueError), match="bytes"):
        create_review(workspace, request)
    assert reviews_of(workspace).names() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "same_input"),
        ({"input": " QUESTION\u00a0{} "}, "same_input"),
        ({"input": [{"role": "user", "content": "question {}."}]}, "same_input"),
        ({"input": None}, "without_input"),
    ],
)
def test_a_copy_of_an_input_is_not_reviewed_again(change: dict[str, Any], reason: str) -> None:
    def answer(name: str, number: int, given: object) -> ItemAnswer:
        text = msgspec.json.encode(given).decode().replace("{}", str(number))
        return ItemAnswer(msgspec.json.decode(text), f"{name} {number}")

    arms = {
        name: {
            **{f"i{n}": answer(name, n, "question {}") for n in range(12)},
            **{
                f"z{turn}-{n}": answer(name, n, change.get("input", "question {}"))
                for turn in range(2)
                for n in range(12)
            },
        }
        for name in ("new", "old")
    }
    if "input" not in change:
        arms = {name: arm | {"I1": arm["i1"]} for name, arm in arms.items()}
    found = match_arms(arms, ReadingChoices())
    assert {pair.input for pair in found.pairs} == {f"question {n}" for n in range(12)}
    assert len(found.pairs) == 12
    assert set(found.left_out) == {reason}
