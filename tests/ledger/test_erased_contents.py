"""Texts of sealed results, pairs of reviews and items of labels: erased, told of, never forged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from tests.ledger.tamper import Tamperer
from tests.reasons import state_reason
from tests.release.review.arms import make_review, prefers, vote_all, write_arm

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import RefusedError
from gatemark.core.measurement import measured
from gatemark.core.result import Result, Table, seal
from gatemark.integrity import erase, verify
from gatemark.ledger.event_kinds import CONTENT_ERASED
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.release.review.close import CloseReview, close_review, review_outcome
from gatemark.release.review.create import next_pair
from gatemark.release.review.labelling import LabelPlan
from gatemark.release.review.labels import (
    AcceptLabels,
    GiveLabel,
    accept_labels,
    create_labels,
    give_label,
    next_sample,
    read_accepted_rows,
)
from gatemark.workspace import Workspace

from .samples import ATTACHMENT, EVIDENCE, result

Run = Callable[..., Any]
SECRET = "call refused for Jane Doe, born 1 May 1980"
TABLES = {"result": "results", "pair": "review_pairs", "item": "label_items"}


def failed_result(title: str = "exam") -> Result:
    """A result with error texts in a table, a caveat, a reason, a finding and a blocker."""
    plain = result(title, verdict="fail", with_blobs=True)
    fields = {name: getattr(plain, name) for name in plain.__struct_fields__}
    (finding,) = plain.findings
    fields |= {
        "figures": (Table("Worse items", ("item", "said"), (("q1", SECRET),), 1),),
        "caveats": (SECRET,),
        "blockers": (SECRET,),
        "findings": (msgspec.structs.replace(finding, reason=state_reason(SECRET)),),
        "measurements": (measured("m", 0.3, n=1, direction="higher_is_better", caveats=(SECRET,)),),
    }
    return seal(**{key: value for key, value in fields.items() if key not in {"id", "stamp"}})


@pytest.fixture(params=["sqlite", "postgresql"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workspace]:
    address = str(tmp_path / "store")
    if request.param == "postgresql":
        address = request.getfixturevalue("new_postgres_url")()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setenv("GATEMARK_REVIEW_KEY", str(tmp_path / "review.key"))
        workspace = Workspace(store=address, actor="ada", jobs=1)
        yield workspace
        workspace.store.close()


def a_pair(workspace: Workspace, folder: Path) -> str:
    make_review(workspace, folder, count=6, min_decisive=1)
    vote_all(workspace, "bob", prefers("new"))
    close_review(workspace, CloseReview(review="letters"))
    return "pair:letters/3"


def an_item(workspace: Workspace, folder: Path) -> str:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    act(workspace, GrantRoles(actor="ada", person="olga", roles=("pack_owner",)))
    plan = LabelPlan(name="tone", labels=("good", "bad"), source="pilot")
    create_labels(workspace.acting_as("olga"), plan, write_arm(folder, "new", 3))
    return "item:tone/q001"


def keep(workspace: Workspace, folder: Path, kept: Result) -> None:
    evidence = folder / "evidence.jsonl"
    evidence.write_bytes(EVIDENCE)
    workspace.keep(kept, [ATTACHMENT], {evidence.name: str(evidence)})


def a_result(workspace: Workspace, folder: Path) -> str:
    kept = failed_result()
    keep(workspace, folder, kept)
    return f"result:{kept.id}"


MAKE = {"result": a_result, "pair": a_pair, "item": an_item}
TEXT = {"result": SECRET, "pair": "question 2", "item": "question 1"}


def stored_documents(workspace: Workspace, kind: str) -> list[bytes]:
    with workspace.store.database.reading() as connection:
        query = f"SELECT document FROM {TABLES[kind]}"
        return [bytes(row[0]) for row in connection.exec_driver_sql(query)]


def find_issues(workspace: Workspace) -> list[str]:
    return [one.message for one in verify(workspace, VerifyRequest()).issues]


@pytest.mark.parametrize("kind", MAKE)
def test_what_was_erased_is_gone_and_told_of(
    workspace: Workspace, tmp_path: Path, kind: str
) -> None:
    what = MAKE[kind](workspace, tmp_path)
    assert any(TEXT[kind].encode() in one for one in stored_documents(workspace, kind))
    done = erase(workspace, what, "request 4711")
    assert done.event is not None
    assert not any(TEXT[kind].encode() in one for one in stored_documents(workspace, kind))
    if workspace.folder is not None:
        database = workspace.folder / "gatemark.sqlite3"
        assert TEXT[kind].encode() not in database.read_bytes()
    ((event, payload),) = workspace.events.events(kind=CONTENT_ERASED)
    assert payload is not None
    assert TEXT[kind] not in str(payload)
    assert (event.actor, payload["reason"]) == ("ada", "request 4711")
    report = verify(workspace, VerifyRequest())
    assert report.issues == ()
    (told,) = [caveat for caveat in report.caveats if "erased" in caveat]
    day = event.at.strftime("%Y-%m-%d")
    assert f"erased by ada on {day} (event {event.seq}): request 4711" in told


@pytest.mark.parametrize("kind", MAKE)
def test_a_dry_run_says_what_goes_and_changes_nothing(
    workspace: Workspace, tmp_path: Path, kind: str
) -> None:
    what = MAKE[kind](workspace, tmp_path)
    before = (stored_documents(workspace, kind), workspace.events.head())
    planned = erase(workspace, what, "request 4711", dry_run=True)
    assert planned.event is None
    assert planned.removed
    assert planned.stays
    assert (stored_documents(workspace, kind), workspace.events.head()) == before


@pytest.mark.parametrize("kind", MAKE)
def test_erasing_twice_is_one_erasure(workspace: Workspace, tmp_path: Path, kind: str) -> None:
    what = MAKE[kind](workspace, tmp_path)
    first = erase(workspace, what, "request 4711")
    assert erase(workspace, what, "again").event == first.event
    assert len(list(workspace.events.events(kind=CONTENT_ERASED))) == 1


@pytest.mark.parametrize("kind", MAKE)
def test_the_database_empties_nothing_without_its_event(
    workspace: Workspace, tmp_path: Path, kind: str
) -> None:
    """No event, an event about something else, and an event that is no longer the last."""
    what = MAKE[kind](workspace, tmp_path)
    table = TABLES[kind]
    empty = "x''" if workspace.store.database.dialect == "sqlite" else "''::bytea"
    statement = f"UPDATE {table} SET document = {empty}"
    with pytest.raises(Exception, match="append-only"):
        run(workspace, statement)
    erase(workspace, what, "request 4711")
    if kind == "result":
        keep(workspace, tmp_path, failed_result("another"))
    with pytest.raises(Exception, match="append-only"):
        run(workspace, statement)
    column = {"results": "title", "review_pairs": "is_gold", "label_items": "id"}[table]
    with pytest.raises(Exception, match=r"append-only|permission denied"):
        run(workspace, f"UPDATE {table} SET {column} = {column}")
    with pytest.raises(Exception, match="append-only"):
        run(workspace, f"DELETE FROM {table}")


def run(workspace: Workspace, statement: str) -> None:
    if workspace.folder is not None:
        with sqlite3.connect(workspace.folder / "gatemark.sqlite3") as connection:
            connection.execute(statement)
    else:
        with psycopg.connect(workspace.store_setting, autocommit=True) as server:
            server.execute(statement)  # type: ignore[call-overload]


def strip_guards(workspace: Workspace, statement: str) -> None:
    """What somebody with the rights of the owner does behind the back of Gatemark."""
    if workspace.folder is not None:
        taken = Tamperer(workspace.folder)
        taken.run(statement.replace("''::bytea", "x''"))
        taken.connection.commit()
        taken.connection.close()
        return
    with psycopg.connect(workspace.store_setting, autocommit=True) as server:
        for table in TABLES.values():
            server.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            server.execute(f"GRANT UPDATE ON {table} TO CURRENT_USER")
        server.execute(statement)  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", MAKE)
def test_content_that_went_without_an_event_is_found(
    workspace: Workspace, tmp_path: Path, kind: str
) -> None:
    MAKE[kind](workspace, tmp_path)
    strip_guards(workspace, f"UPDATE {TABLES[kind]} SET document = ''::bytea")
    report = verify(workspace, VerifyRequest())
    assert report.verdict == "fail"
    assert any("gone, and no event erased it" in one.message for one in report.issues)


@pytest.mark.parametrize("kind", MAKE)
def test_content_that_came_back_is_found(workspace: Workspace, tmp_path: Path, kind: str) -> None:
    what = MAKE[kind](workspace, tmp_path)
    documents = stored_documents(workspace, kind)
    (held,) = [one for one in documents if TEXT[kind].encode() in one]
    erase(workspace, what, "request 4711")
    hexed = held.hex()
    literal = f"x'{hexed}'" if workspace.folder is not None else f"'\\x{hexed}'::bytea"
    strip_guards(
        workspace, f"UPDATE {TABLES[kind]} SET document = {literal} WHERE length(document) = 0"
    )
    report = verify(workspace, VerifyRequest())
    assert report.verdict == "fail"
    assert any("was erased by event" in one.message for one in report.issues)


FORGED = {
    "another digest": {"digest": digest_bytes(b"something else")},
    "something that never was": {"name": "sha256:" + "0" * 64, "number": 9},
}


@pytest.mark.parametrize("how", FORGED)
@pytest.mark.parametrize("kind", MAKE)
def test_a_forged_tombstone_is_found(
    workspace: Workspace, tmp_path: Path, kind: str, how: str
) -> None:
    what = MAKE[kind](workspace, tmp_path)
    erase(workspace, what, "request 4711")
    ((event, payload),) = workspace.events.events(kind=CONTENT_ERASED)
    if workspace.folder is None:
        pytest.skip("a chain is forged in a file; the check reads both databases alike")
    forger = Tamperer(workspace.folder)
    forger.say(event.seq, {**(payload or {}), **FORGED[how]})
    forger.rechain(event.seq)
    forger.connection.commit()
    forger.connection.close()
    report = verify(workspace, VerifyRequest())
    assert report.verdict == "fail"
    assert [one for one in report.issues if one.check in ("result", "review", "labels")]


def test_a_tombstone_cannot_change_the_verdict_or_the_occasion(
    workspace: Workspace, tmp_path: Path
) -> None:
    what = a_result(workspace, tmp_path)
    erase(workspace, what, "request 4711")
    ((event, payload),) = workspace.events.events(kind=CONTENT_ERASED)
    if workspace.folder is None or payload is None:
        pytest.skip("a chain is forged in a file; the check reads both databases alike")
    for change in ({"verdict": "pass", "blockers": []}, {"actor": "eve"}, {"caveats": [SECRET]}):
        forger = Tamperer(workspace.folder)
        forger.say(event.seq, {**payload, "remains": {**payload["remains"], **change}})  # type: ignore[dict-item]
        forger.rechain(event.seq)
        forger.connection.commit()
        forger.connection.close()
        assert find_issues(workspace), change


def test_an_erased_result_keeps_its_numbers_and_says_what_is_gone(
    workspace: Workspace, tmp_path: Path, gatemark: Run
) -> None:
    what = a_result(workspace, tmp_path)
    erase(workspace, what, "request 4711")
    kept = workspace.results.get(what.removeprefix("result:"))
    assert (kept.verdict, kept.measurements[0].value, kept.figures) == ("fail", 0.3, ())
    assert SECRET not in str(kept)
    assert "erased" in str(kept.caveats)
    (line,) = workspace.results.lines(5)
    assert (line.title, line.verdict) == ("exam", "fail")
    report = verify(workspace, VerifyRequest(rescore=True))
    assert report.verdict == "inconclusive"
    assert any("its texts were erased" in why for why in report.unjudged)


def test_an_erased_result_cannot_be_sealed_again(workspace: Workspace, tmp_path: Path) -> None:
    what = a_result(workspace, tmp_path)
    erase(workspace, what, "request 4711")
    with pytest.raises(RefusedError, match=r"was erased by ada on .* cannot be sealed again"):
        keep(workspace, tmp_path, failed_result())
    assert find_issues(workspace) == []


def test_an_export_of_an_erased_result_verifies(
    workspace: Workspace, tmp_path: Path, gatemark: Run
) -> None:
    what = a_result(workspace, tmp_path)
    erase(workspace, what, "request 4711")
    ran = gatemark("ledger", "export", "out", "--store", workspace.store_setting)
    assert ran.code == 0, ran.err
    assert not [one for one in (tmp_path / "out").rglob("*.json*") if SECRET in one.read_text()]
    report = verify(workspace, VerifyRequest(export="out"))
    assert (report.issues, report.results) == ((), 1)
    (document,) = (tmp_path / "out" / "results").glob("*[0-9a-f].json")
    document.write_text("{}")
    assert verify(workspace, VerifyRequest(export="out")).verdict == "fail"


def test_the_outcome_of_a_review_stays_after_a_pair_is_erased(
    workspace: Workspace, tmp_path: Path
) -> None:
    what = a_pair(workspace, tmp_path)
    before = review_outcome(workspace, "letters")
    erase(workspace, what, "request 4711")
    after = review_outcome(workspace, "letters")
    assert after.candidates[0].result_id == before.candidates[0].result_id
    assert any("pair 3" in caveat and "erased" in caveat for caveat in after.caveats)
    assert find_issues(workspace) == []


def test_an_erased_pair_is_not_shown_and_cannot_return(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_review(workspace, tmp_path, count=6, min_decisive=1)
    shown = next_pair(workspace, "letters", "bob")
    assert shown is not None
    for number in range(1, 6):
        erase(workspace, f"pair:letters/{number}", "request 4711")
    rest = vote_all(workspace, "bob", prefers("new"))
    assert [pair.input for pair in rest] == ["question 5"]
    with pytest.raises(RefusedError, match="still needs votes on 5 pairs"):
        close_review(workspace, CloseReview(review="letters"))
    outcome = close_review(workspace, CloseReview(review="letters", early="erased"))
    assert outcome.verdict == "inconclusive"
    assert find_issues(workspace) == []
    (tmp_path / "again").mkdir()
    with pytest.raises(RefusedError, match=r"item q000 was erased by ada on .* leave it out"):
        make_review(workspace, tmp_path / "again", count=6, name="again")


def test_an_erased_item_is_left_out_of_labels_and_cannot_return(
    workspace: Workspace, tmp_path: Path
) -> None:
    what = an_item(workspace, tmp_path)
    for item in ("q000", "q001", "q002"):
        give_label(workspace, GiveLabel(labels="tone", actor="bob", item=item, label="good"))
    olga = workspace.acting_as("olga")
    first = accept_labels(olga, AcceptLabels(labels="tone"))
    planned = erase(workspace, what, "request 4711", dry_run=True)
    assert any(str(first.dataset_digest) in one for one in planned.may_hold)
    erase(workspace, what, "request 4711")
    with pytest.raises(RefusedError, match=r"item q001 was erased.*accept the labels again"):
        read_accepted_rows(workspace, "tone")
    with pytest.raises(RefusedError, match="item q001 was erased"):
        give_label(workspace, GiveLabel(labels="tone", actor="eve", item="q001", label="bad"))
    again = accept_labels(olga, AcceptLabels(labels="tone"))
    assert (again.accepted_count, again.in_all_count) == (0, 2)
    assert b"q001" not in read_accepted_rows(workspace, "tone")
    assert next_sample(workspace, "tone", "carl") is None
    assert find_issues(workspace) == []
    plan = LabelPlan(name="second", labels=("good", "bad"), source="pilot")
    with pytest.raises(RefusedError, match=r"item q001 was erased by ada on .* leave it out"):
        create_labels(workspace.acting_as("olga"), plan, write_arm(tmp_path, "new", 3))


def test_the_command_tells_before_and_after(
    workspace: Workspace, tmp_path: Path, gatemark: Run
) -> None:
    what = a_pair(workspace, tmp_path)
    flags = ("--reason", "request 4711", "--store", workspace.store_setting)
    ran = gatemark("ledger", "erase", what, *flags, "--dry-run")
    assert ran.code == 0, ran.err
    assert "would erase pair 3 of review letters (item q002)" in ran.out
    assert "nothing was erased" in ran.out
    ran = gatemark("ledger", "erase", "pair:letters/q002", *flags)
    assert ran.code == 0, ran.err
    assert "erased pair 3 of review letters (item q002)" in ran.out
    assert "recorded in event" in ran.out
    for wrong in ("pair:letters/99", "pair:nobody/1", "item:nobody/x", "pair:letters", "result:00"):
        ran = gatemark("ledger", "erase", wrong, *flags)
        assert ran.code == 2, (wrong, ran.err)


def again(workspace: Workspace, folder: Path, kind: str) -> str:
    """The same content in another review or label set; the name of its copy."""
    if kind == "pair":
        make_review(workspace, folder, name="second", count=6, min_decisive=1)
        return "pair:second/3"
    plan = LabelPlan(name="second", labels=("good", "bad"), source="pilot")
    create_labels(workspace.acting_as("olga"), plan, write_arm(folder, "new", 3))
    return "item:second/q001"


@pytest.mark.parametrize("kind", ["pair", "item"])
def test_a_copy_from_before_the_erasure_is_named_and_is_no_forgery(
    workspace: Workspace, tmp_path: Path, kind: str
) -> None:
    what = MAKE[kind](workspace, tmp_path)
    copied = again(workspace, tmp_path, kind)
    erase(workspace, what, "request 4711")
    report = verify(workspace, VerifyRequest())
    assert (report.verdict, report.issues) == ("inconclusive", ())
    assert [f"gatemark ledger erase {copied} --reason" in one for one in report.unjudged] == [True]
    erase(workspace, copied, "request 4711")
    assert verify(workspace, VerifyRequest()).verdict == "pass"


@pytest.mark.parametrize("kind", ["pair", "item"])
def test_a_copy_from_after_the_erasure_is_a_forgery(
    workspace: Workspace, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase(workspace, MAKE[kind](workspace, tmp_path), "request 4711")
    for module in ("create", "labels"):
        monkeypatch.setattr(f"gatemark.release.review.{module}.refuse_erased", lambda *_: None)
    again(workspace, tmp_path, kind)
    assert [one for one in find_issues(workspace) if "has content that was erased by event" in one]
