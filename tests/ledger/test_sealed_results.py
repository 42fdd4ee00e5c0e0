from __future__ import annotations

from typing import Any

import pytest

from gatemark.core.canonical import digest
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.ledger.event import EventDraft
from gatemark.release.lifecycle.ledger_rules import RuleCheck

from .governed import FIRST, MOMENT, ONE, Governed, write_history
from .memory import MemoryStore
from .samples import result


def test_a_whole_history_verifies() -> None:
    store = MemoryStore()
    write_history(store)
    report = verify_ledger(store)
    assert report.issues == ()
    assert (report.verdict, report.decisions, report.results) == ("pass", 16, 3)


def test_a_result_is_sealed_again_on_another_occasion_and_both_are_told() -> None:
    store = MemoryStore()
    store.results.append(FIRST)
    store.results.append(result("first", candidate=ONE, with_blobs=True, actor="somebody else"))
    store.results.append(FIRST)
    events = list(store.events.events(kind="result_sealed"))
    assert len(events) == 2
    assert {payload["result_id"] for _, payload in events if payload} == {FIRST.id}
    assert len(store.results.lines(5)) == 1


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"occasion": {}}, f"the stamp of result {FIRST.id} does not cover its occasion"),
        ({"policy_digest": digest("lax")}, f"describes result {FIRST.id} differently than event 1"),
        ({"verdict": 7}, "its payload is not that of a result_sealed"),
    ],
)
def test_an_event_that_tells_of_a_result_otherwise_is_found(
    edits: dict[str, Any], message: str
) -> None:
    store = MemoryStore()
    store.results.append(FIRST)
    ((_, payload),) = store.events.events(kind="result_sealed")
    store.events.append(
        (EventDraft("result_sealed", MOMENT, "mal", None, {**(payload or {}), **edits}),)
    )
    told = [t.message for t in verify_ledger(store).issues if (t.seq, t.check) == (2, "decision")]
    assert len(told) == 1
    assert message in told[0]


def test_a_decision_that_cannot_be_read_is_found() -> None:
    book = Governed(MemoryStore())
    book.add("transition", "x", version="2")
    (trouble,) = verify_ledger(book.store, further=[RuleCheck(book.store)]).issues
    assert (trouble.seq, trouble.check) == (1, "decision")
    assert "(transition) cannot be read" in trouble.message
