"""What people say: blind reviews, labels, attributed failures; and their accounts."""

from __future__ import annotations

import json
from typing import Any, Final

from gatemark.core.errors import NotAllowedError
from gatemark.server.accounts.identity import identify_session
from gatemark.server.accounts.links import join, make_first_link
from gatemark.server.accounts.people import AddPerson, add_person, close_person
from gatemark.server.accounts.sign_in import FailedSignIns, sign_in, sign_out
from gatemark.server.accounts.tokens import MakeToken, make_token, revoke_token
from gatemark.workspace import Workspace
from store_fixture import data
from store_fixture.stage import Stage

PASSWORD: Final = "a synthetic pass phrase"  # noqa: S105 - opens nothing but a fixture


def reviews(on: Stage) -> None:
    """A review that is closed, one that was looked at and closed early, and one that is open."""
    new = on.lines("evidence/new.jsonl", data.answers("q", "Your parcel arrives on day", 12))
    old = on.lines("evidence/old.jsonl", data.answers("q", "Parcel, day", 12))
    third = on.lines("evidence/third-arm.jsonl", data.answers("q", "It comes on day", 12))
    gold = on.lines("evidence/gold.jsonl", data.gold())
    arms = ("--candidate", f"new={new}", "--baseline", f"old={old}", "--min-decisive", 8)
    on.run(
        *("review", "create", "letters", *arms, "--gold", gold, "--votes-per-pair", 2),
        *("--arbiter", "eve", "--question", "Which answer would you send?"),
        actor="dai",
    )
    for person in ("ben", "cleo"):
        vote_all(on, "letters", person)
    on.run("review", "close", "letters", actor="dai")
    on.run(
        *("review", "create", "looked-at", *arms, "--peeking", "--trim", "--reviewer", "ben"),
        actor="dai",
    )
    vote_all(on, "looked-at", "ben", most=5)
    on.run("review", "vote", "looked-at", "skip", "--reason", "not my field", actor="ben")
    on.run("review", "status", "looked-at", "--look", actor="dai")
    on.run("review", "close", "looked-at", "--early", "ben left", actor="dai", codes=(3,))
    several = ("--candidate", f"a={new}", "--candidate", f"b={third}", "--baseline", f"c={old}")
    on.run("review", "create", "open-review", *several, "--min-decisive", 8, actor="dai")
    vote_all(on, "open-review", "cleo", most=4)
    on.notes["reviews"] = ["letters", "looked-at", "open-review"]


def vote_all(on: Stage, name: str, person: str, most: int | None = None) -> None:
    """Vote for whole sentences until nothing is left; the first vote is changed once."""
    count = 0
    while count != most:
        pair = on.json("review", "next", name, actor=person, codes=(0, 1, 2))
        if not pair:
            return
        a, b = (str(pair[side]).startswith("Your") for side in ("a", "b"))
        choice = "both_good" if a == b else "a" if a else "b"
        token = ("--token", pair["token"])
        if count == 0:
            on.run("review", "vote", name, "both_bad", *token, actor=person)
        on.run("review", "vote", name, choice, *token, "--reason", "reads well", actor=person)
        count += 1


def labels(on: Stage) -> None:
    """Labels in several versions, some accepted, one settled by a pack owner."""
    rows = on.lines("evidence/to-label.jsonl", data.answers("t", "Thank you for letter", 6))
    on.run(
        *("review", "labels", "create", "tone", rows, "--label", "good", "--label", "bad"),
        *("--source", "invented letters", "--labels-per-item", 2),
        actor="dai",
    )
    for number, person, label in (
        (0, "ben", "bad"),
        (0, "ben", "good"),
        (0, "cleo", "good"),
        (1, "ben", "good"),
        (1, "cleo", "bad"),
        (2, "ben", "bad"),
        (2, "cleo", "bad"),
        (3, "ben", "good"),
    ):
        note = ("--note", f"by {person}")
        on.run("review", "labels", "give", "tone", f"t{number:02d}", label, *note, actor=person)
    on.run("review", "labels", "accept", "tone", "--choose", "t01=good", actor="dai")
    on.run(
        *("review", "labels", "create", "targets", rows, "--label", "late", "--label", "praise"),
        *("--source", "invented letters", "--field", "target"),
        actor="dai",
    )
    on.run("review", "labels", "give", "targets", "t00", "late", actor="ben")
    on.run("review", "labels", "accept", "targets", actor="dai")
    on.notes["label_sets"] = ["tone", "targets"]


def attributions(on: Stage) -> None:
    """A wrong decision traced by running its steps again, and one by other decisions."""
    on.write("desk/decision.json", json.dumps(data.DECISION))
    on.write("desk/desk.py", data.DESK)
    on.write("desk/replay.yaml", data.REPLAY)
    on.write("desk/rules.yaml", data.RULES)
    on.lines("desk/others.jsonl", data.other_decisions())
    replayed = attribute(on, "--replay", "--rules", "desk/rules.yaml")
    accept = ("--accept", "golden_item", "--reject", "rule_gap", "--note", "seen in May too")
    on.run("review", "attribution", replayed, *accept, actor="dai")
    compared = attribute(on, "--runs", "desk/others.jsonl")
    on.notes["attributions"] = [replayed, compared]


def attribute(on: Stage, *words: object) -> str:
    """Seal an attribution of the wrong decision and return its id."""
    told = on.run("attribute", "desk/decision.json", *words, "--seal", actor="ben", codes=(0, 3))
    return told.split()[-1]


def accounts_of_people(on: Stage) -> None:
    """Somebody joins, signs in and out, mistypes a password, makes tokens, adds and closes.

    There is no command for this, only the page; so the functions behind the page are called.
    """
    workspace = Workspace(store=on.store)
    link = make_first_link(workspace)
    if link is None:
        raise RuntimeError("the store has accounts already")
    on.clock.add(minutes=1)
    session = join(workspace, link, "ana", PASSWORD)
    who = identify_session(workspace, session)
    if who is None:
        raise RuntimeError("the session of ana is not known")
    on.clock.add(minutes=1)
    add_person(workspace, who, AddPerson(name="fay", roles=("viewer",)))
    add_person(workspace, who, AddPerson(name="gus", roles=("auditor",)))
    close_person(workspace, who, "gus")
    kept: Any = make_token(workspace, who, MakeToken(label="nightly upload", scopes=("read",)))
    dropped = make_token(workspace, who, MakeToken(label="once", scopes=("read",), days=1))
    revoke_token(workspace, who, dropped.token.id)
    sign_out(workspace, session)
    on.clock.add(minutes=1)
    failures = FailedSignIns()
    where = "192.0.2.7"
    try:
        sign_in(workspace, "ana", "a wrong one", where=where, before=None, failures=failures)
    except NotAllowedError:
        on.clock.add(minutes=1)
    sign_in(workspace, "ana", PASSWORD, where=where, before=None, failures=failures)
    workspace.store.close()
    on.run("serve", "--link", "fay")
    on.notes["accounts"] = {"people": ["ana", "fay", "gus"], "token": kept.token.id}
