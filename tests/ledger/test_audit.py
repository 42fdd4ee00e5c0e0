from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from gatemark.core.canonical import digest
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.checks.verify import verify_ledger
from gatemark.ledger.stores.memory import MemoryStore

from .governed import (
    FAILED,
    FIRST,
    MOMENT,
    ONE,
    SECOND,
    TWO,
    Governed,
    enable_second,
    first_version,
    second_version,
    write_history,
)
from .samples import result

Story = Callable[[Governed], object]


def told(*story: Story) -> tuple[LedgerReport, int]:
    book = Governed(MemoryStore())
    for chapter in story:
        chapter(book)
    return verify_ledger(book.store), book.store.events.head().seq


def test_a_whole_history_verifies() -> None:
    store = MemoryStore()
    write_history(store)
    report = verify_ledger(store)
    assert report.troubles == ()
    assert (report.verdict, report.decisions, report.results) == ("pass", 16, 3)


def canary_with(**more: object) -> Story:
    """The step into the canary, with something about its approval or itself changed."""

    def tell(book: Governed) -> None:
        vote = {k.removeprefix("vote_"): v for k, v in more.items() if k.startswith("vote_")}
        step = {k: v for k, v in more.items() if not k.startswith("vote_")}
        approval = book.approve(TWO, **{"stage": "canary_1", "results": [SECOND], **vote})
        step = {"results": [SECOND], "approvals": [approval.seq], **step}
        book.move("2", "shadow", "canary_1", **step)

    return tell


def in_shadow(book: Governed) -> None:
    book.register("2", TWO)
    book.seal(SECOND)
    book.seal(FAILED)
    book.seal(FIRST_ONE)
    book.move("2", "draft", "evaluating")
    book.move("2", "evaluating", "eligible", [SECOND])
    book.move("2", "eligible", "shadow", [SECOND])


FIRST_ONE = result("about version one", candidate=ONE)
UNSEALED = result("never sealed", candidate=TWO)
NOBODYS = result("about nobody")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (canary_with(), None),
        (canary_with(results=()), "goes up to canary_1 without citing a result"),
        (canary_with(results=[UNSEALED], vote_results=[UNSEALED]), "which was not sealed before"),
        (canary_with(results=[FAILED], vote_results=[FAILED]), "whose verdict is fail"),
        (
            canary_with(results=[FIRST_ONE], vote_results=[FIRST_ONE]),
            f"which is about {ONE}, not this candidate",
        ),
        (canary_with(approvals=[]), "goes up to canary_1 without an approval"),
        (canary_with(approvals=[99]), "cites event 99, which is no approval before it"),
        (canary_with(approvals=[5]), "cites event 5, which is no approval before it"),
        (canary_with(vote_actor="alice"), "was given by the author, alice"),
        (canary_with(vote_actor="system"), "was given by no person"),
        (canary_with(vote_stage="enabled"), "is for another stage: enabled, not canary_1"),
        (canary_with(vote_decision="reject"), "is for another decision: reject, not approve"),
        (canary_with(vote_policy_digest=digest("old")), "is for another policy"),
        (canary_with(vote_candidate_digest=ONE), "is for another candidate"),
        (canary_with(vote_results=[SECOND, FAILED]), "is bound to other results"),
        (canary_with(vote_expires_at=MOMENT + timedelta(minutes=8)), "expired at"),
        (canary_with(vote_expires_at=MOMENT + timedelta(minutes=10)), None),
    ],
)
def test_a_step_up_needs_evidence_and_another_person(step: Story, message: str | None) -> None:
    report, last = told(in_shadow, step)
    if message is None:
        assert report.troubles == ()
        return
    assert report.verdict == "fail"
    wrong = [trouble for trouble in report.troubles if message in trouble.message]
    assert wrong, report.troubles
    assert {trouble.seq for trouble in wrong} == {last}


def test_an_approval_by_the_author_is_wrong_even_when_nobody_uses_it() -> None:
    report, last = told(
        in_shadow, lambda book: book.approve(TWO, "canary_1", [SECOND], actor="alice")
    )
    assert [(t.seq, t.check) for t in report.troubles] == [(last, "decision")]
    assert "alice approves a version of which alice is the author" in report.troubles[0].message


def test_a_rejection_by_the_author_is_no_trouble() -> None:
    vote = {"actor": "alice", "decision": "reject"}
    report, _ = told(in_shadow, lambda book: book.approve(TWO, "canary_1", [SECOND], **vote))
    assert report.troubles == ()


def test_one_person_does_not_count_twice() -> None:
    def twice(book: Governed) -> None:
        votes = [book.approve(TWO, "canary_1", [SECOND]).seq for _ in range(2)]
        book.move("2", "shadow", "canary_1", [SECOND], approvals=votes)

    report, _ = told(in_shadow, twice)
    assert "counts the approval of bob twice" in report.troubles[0].message


def test_who_last_edited_the_pack_does_not_approve_by_it() -> None:
    def edited(book: Governed) -> None:
        book.add("exam_set", "bob", exam={})

    report, _ = told(in_shadow, edited, canary_with())
    assert "bob, who last edited the full pack" in report.troubles[0].message


@pytest.mark.parametrize(
    ("story", "message"),
    [
        (lambda b: b.move("3", "draft", "evaluating"), "triage@3 was never registered"),
        (lambda b: b.move("2", "eligible", "shadow", [SECOND]), "starts from eligible, but stands"),
        (
            lambda b: b.move("2", "shadow", "canary_1", [SECOND], candidate_digest=ONE),
            "the move is about",
        ),
        (lambda b: b.move("2", "shadow", "heaven", [SECOND]), "nobody knows the stage 'heaven'"),
        (lambda b: b.register("2", TWO), "triage@2 was registered before"),
        (
            lambda b: b.add("transition", "x", version="2"),
            "its payload is not that of a transition",
        ),
        (
            lambda b: b.move("2", "shadow", "enabled", [SECOND], cause="rollback"),
            "rolls back to a version that was never enabled",
        ),
        (
            lambda b: b.move("2", "shadow", "enabled", [SECOND], cause="break_glass"),
            "breaks the glass without an event that says so",
        ),
    ],
)
def test_moves_that_cannot_be_are_found(story: Story, message: str) -> None:
    report, last = told(in_shadow, story)
    assert any(message in t.message and t.seq == last for t in report.troubles), report.troubles


def test_broken_glass_is_shown_by_its_own_event_and_then_holds() -> None:
    def break_it(book: Governed) -> None:
        until = MOMENT + timedelta(hours=4)
        book.add("break_glass", "olga", version="2", until=until, environment="production")
        book.move("2", "shadow", "enabled", [SECOND], cause="break_glass")

    report, _ = told(in_shadow, break_it)
    assert report.troubles == ()


def test_a_canary_goes_up_only_by_clean_windows_of_its_own_stage() -> None:
    def ramp(*seqs: int) -> Story:
        return lambda book: book.move(
            "2", "canary_1", "canary_5", [SECOND], windows=seqs, cause="ramp"
        )

    base = (in_shadow, canary_with())
    assert "without a clean window" in told(*base, ramp())[0].troubles[0].message
    clean = lambda book: book.window("2", "canary_1")  # noqa: E731
    assert told(*base, clean, ramp(10))[0].troubles == ()
    late = lambda book: book.window("2", "canary_25")  # noqa: E731
    assert "at canary_25 that was clean" in told(*base, late, ramp(10))[0].troubles[0].message
    bad = lambda book: book.window("2", "canary_1", "breach")  # noqa: E731
    assert "that was breach" in told(*base, bad, ramp(10))[0].troubles[0].message
    other = lambda book: book.add("noted", "x")  # noqa: E731
    assert "judges no canary window" in told(*base, other, ramp(10))[0].troubles[0].message


def test_two_versions_are_never_enabled_at_once() -> None:
    def enable_beside(book: Governed) -> None:
        clean = [book.window("2", "canary_25").seq]
        vote = book.approve(TWO, "enabled", [SECOND])
        book.move("2", "canary_25", "enabled", [SECOND], approvals=[vote.seq], windows=clean)

    report, last = told(first_version, second_version, enable_beside)
    assert [(t.seq, t.message) for t in report.troubles] == [
        (last, f"event {last}: is enabled beside 1")
    ]


def test_a_rollback_cites_what_the_version_was_enabled_by() -> None:
    def wrong_citation(book: Governed) -> None:
        book.seal(FIRST_ONE)
        book.move("2", "enabled", "rolled_back", cause="rollback")
        book.move("1", "superseded", "enabled", [FIRST_ONE], cause="rollback")

    report, last = told(first_version, second_version, enable_second, wrong_citation)
    assert [t.seq for t in report.troubles] == [last]
    assert "citing other results than the version was enabled by" in report.troubles[0].message


def test_a_result_is_sealed_again_on_another_occasion_and_both_are_told() -> None:
    store = MemoryStore()
    store.results.append(FIRST)
    store.results.append(result("first", candidate=ONE, with_blobs=True, actor="somebody else"))
    store.results.append(FIRST)
    events = list(store.events.events(kind="result_sealed"))
    assert len(events) == 2
    assert {payload["result_id"] for _, payload in events if payload} == {FIRST.id}
    assert len(store.results.lines(5)) == 1
