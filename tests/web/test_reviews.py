"""Blind review and labels over the interface: what works, and what is refused."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import pytest
from httpx import Client, Response
from tests.web.scene import ASSET, Scene

from gatemark.core.canonical import digest

API = "/api/v1/reviews"
LABELS = "/api/v1/labels"
HOSTILE = '<script>alert(1)</script> [x](javascript:alert(2)) <img src=x onerror="alert(3)">'


def lines(words: str, count: int = 20, tail: str = "") -> str:
    rows = [
        {
            "schema": "gatemark.sample/1",
            "id": f"q{at:02}",
            "input": f"question {at}",
            "output": f"{words} {at}{tail}",
            "scores": {},
        }
        for at in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def make(scene: Scene, client: Client, count: int = 20, **more: Any) -> Response:
    headers = scene.session(client, "eve")
    tail = more.pop("tail", "")
    body = {
        "name": "letters",
        "candidates": ["new"],
        "baseline": "old",
        "samples": {"new": lines("New", count, tail), "old": lines("Old", count, tail)},
        **more,
    }
    return client.post(API, json=body, headers=headers)


def vote_all(
    scene: Scene, client: Client, person: str, word: str = "New", review: str = "letters"
) -> list[dict[str, Any]]:
    headers = scene.session(client, person)
    seen = []
    while (found := client.get(f"{API}/{review}/next").json())["pair"] is not None:
        pair = found["pair"]
        seen.append(pair)
        body = {"token": pair["token"], "answered": "a" if pair["a"].startswith(word) else "b"}
        assert client.post(f"{API}/{review}/votes", json=body, headers=headers).status_code == 200
    return seen


def close(scene: Scene, client: Client, person: str = "eve", **body: Any) -> Response:
    headers = scene.session(client, person)
    return client.post(f"{API}/letters/closing", json=body, headers=headers)


def test_two_reviewers_come_to_a_verdict_that_the_ledger_tells_of(
    scene: Scene, client: Client
) -> None:
    made = make(scene, client, votes_per_pair=2)
    assert (made.status_code, made.json()["pair_count"]) == (201, 20)
    for person in ("ann", "bob"):
        scene.session(client, person)
        mine = client.get(API).json()["items"][0]["mine"]
        assert (mine["waits"], mine["answered"], mine["total"]) == (True, 0, 20)
        assert len(vote_all(scene, client, person)) == 20
        mine = client.get(f"{API}/letters").json()["line"]["mine"]
        assert (mine["waits"], mine["answered"], mine["total"]) == (False, 20, 20)
    outcome = close(scene, client).json()
    assert outcome["verdict"] == "pass"
    assert outcome["candidates"][0]["numbers"]["wins"] == 20
    (couple,) = outcome["pairs_agreement"]
    assert (couple["reviewers"], couple["n"]) == (["ann", "bob"], 20)
    assert couple["verdict"] == "inconclusive", "kappa says nothing where all votes are the same"
    scene.session(client, "tom")
    assert client.get(f"{API}/letters/outcome").json() == outcome
    events = client.get("/api/v1/ledger/events?subject=review:letters").json()["items"]
    assert [(one["kind"], one["actor"]) for one in events] == [
        ("review_unblinded", "eve"),
        ("review_created", "eve"),
    ]
    assert len(client.get(f"{API}/letters/ballots").text.splitlines()) == 40
    key = client.get(f"{API}/letters/key").json()
    assert (key["key"], key["commitment"]) == (outcome["key"], made.json()["commitment"])


def test_what_a_reviewer_gets_tells_nothing_about_the_arms(scene: Scene, client: Client) -> None:
    make(scene, client)
    seen = vote_all(scene, client, "bob")
    assert len({tuple(pair) for pair in seen}) == 1, "one shape, one order of fields"
    for pair in seen:
        rest = json.dumps({key: pair[key] for key in pair if key not in ("input", "a", "b")})
        assert not re.search(r"new|old|candidate|baseline|q\d\d|gold", rest, re.IGNORECASE)
    card = client.get(f"{API}/letters").text
    assert not re.search(r'"new"|"old"|win|number', card)


def test_saying_it_twice_is_saying_it_once_and_a_change_is_a_version(
    scene: Scene, client: Client
) -> None:
    make(scene, client)
    headers = scene.session(client, "bob")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    assert client.get(f"{API}/letters/next").json()["pair"]["token"] == token
    vote = {"token": token, "answered": "a", "reason": "shorter"}
    there = f"{API}/letters/votes"
    versions = [client.post(there, json=vote, headers=headers).json()["version"] for _ in range(2)]
    keyed = headers | {"Idempotency-Key": "v"}
    versions += [client.post(there, json=vote, headers=keyed).json()["version"] for _ in range(2)]
    changed = client.post(there, json=vote | {"answered": "both_bad"}, headers=headers)
    assert (versions, changed.json()["version"]) == ([1, 1, 1, 1], 2)
    again = client.get(f"{API}/letters/pairs/{token}").json()
    assert (again["answered"], again["reason"]) == ("both_bad", "shorter")


def test_the_overview_tells_what_waits_for_whom(scene: Scene, client: Client) -> None:
    make(scene, client, votes_per_pair=2)
    label_set(scene, client)
    scene.session(client, "tom")
    assert client.get("/api/v1/overview").json()["desk"] == []
    scene.session(client, "bob")
    found = client.get("/api/v1/overview").json()["desk"]
    assert [(one["kind"], one["name"], one["total"]) for one in found] == [
        ("review", "letters", 20),
        ("labels", "tone", 3),
    ]
    shown = client.get("/").text
    assert 'href="/reviews/letters"' in shown
    assert 'href="/labels/tone"' in shown
    vote_all(scene, client, "bob")
    assert [one["kind"] for one in client.get("/api/v1/overview").json()["desk"]] == ["labels"]


def test_a_skip_needs_a_reason(scene: Scene, client: Client) -> None:
    make(scene, client)
    headers = scene.session(client, "bob")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    for reason, status in (("", 422), ("  ", 422), ("not my field", 200)):
        body = {"token": token, "answered": "skip", "reason": reason}
        assert client.post(f"{API}/letters/votes", json=body, headers=headers).status_code == status


@pytest.mark.parametrize("person", ["bob", "ann", "root", "eve"])
def test_nobody_gets_the_sealed_key_or_the_outcome_of_an_open_review(
    scene: Scene, client: Client, person: str
) -> None:
    make(scene, client)
    scene.session(client, person)
    refused = client.get(f"{API}/letters/key")
    assert (refused.status_code, "sealed" in refused.json()["detail"]) == (403, True)
    for what in ("outcome", "ballots"):
        assert client.get(f"{API}/letters/{what}").status_code == 409
    for way in ("positions", "pairs", "arms", "plan", "sealed_key"):
        assert client.get(f"{API}/letters/{way}").status_code in (404, 405), way
    key = scene.house.reviews.get("letters").key.hex()
    for address in (API, f"{API}/letters", "/api/v1/ledger/events", "/reviews", "/reviews/letters"):
        shown = client.get(address).text
        assert key not in shown, address


def test_nobody_votes_for_somebody_else(scene: Scene, client: Client) -> None:
    make(scene, client)
    scene.session(client, "ann")
    hers = client.get(f"{API}/letters/next").json()["pair"]["token"]
    headers = scene.session(client, "bob")
    assert client.get(f"{API}/letters/pairs/{hers}").status_code == 404
    body = {"token": hers, "answered": "a"}
    assert client.post(f"{API}/letters/votes", json=body, headers=headers).status_code == 404
    named = body | {"reviewer": "ann"}
    assert client.post(f"{API}/letters/votes", json=named, headers=headers).status_code == 422
    assert scene.house.reviews.votes("letters") == []


def test_a_viewer_looks_and_does_nothing_else_unless_named(scene: Scene, client: Client) -> None:
    make(scene, client, peeking=True)
    headers = scene.session(client, "tom")
    assert client.get(f"{API}/letters").json()["line"]["mine"]["why_not"]
    assert client.get(f"{API}/letters/next").status_code == 403
    vote = {"token": "0" * 32, "answered": "a"}
    for what, body in (("votes", vote), ("looks", {}), ("closing", {})):
        told = client.post(f"{API}/letters/{what}", json=body, headers=headers)
        assert told.status_code == 403, what
    body = {"name": "mine", "samples": {"candidate": lines("a"), "baseline": lines("b")}}
    assert client.post(API, json=body, headers=headers).status_code == 403
    assert make(scene, client, name="named", reviewers=["tom"]).status_code == 201
    scene.session(client, "tom")
    assert client.get(f"{API}/named/next").json()["pair"] is not None
    scene.session(client, "bob")
    assert client.get(f"{API}/named/next").status_code == 403


def test_no_token_votes(scene: Scene, client: Client) -> None:
    make(scene, client)
    headers = scene.session(client, "bob")
    wish = {"label": "bot", "scopes": ["read", "run", "act"], "days": 1}
    secret = client.post("/api/v1/tokens", json=wish, headers=headers).json()["secret"]
    client.cookies.clear()
    bearer = {"Authorization": f"Bearer {secret}"}
    body = {"token": "0" * 32, "answered": "a"}
    refused = client.post(f"{API}/letters/votes", json=body, headers=bearer)
    assert (refused.status_code, "in person" in refused.text) == (403, True)
    assert client.get(f"{API}/letters", headers=bearer).status_code == 200


def test_numbers_are_shown_where_peeking_is_allowed_and_to_nobody_who_votes(
    scene: Scene, client: Client
) -> None:
    make(scene, client)
    headers = scene.session(client, "ann")
    hidden = client.post(f"{API}/letters/looks", headers=headers)
    assert (hidden.status_code, "hidden until" in hidden.text) == (403, True)
    make(scene, client, name="open", peeking=True)
    vote_all(scene, client, "bob", review="open")
    headers = scene.session(client, "bob")
    assert client.post(f"{API}/open/looks", headers=headers).status_code == 403
    headers = scene.session(client, "ann")
    seen = client.post(f"{API}/open/looks", headers=headers).json()
    assert seen["numbers"]["new"]["wins"] == 20
    assert client.get(f"{API}/open/next").status_code == 403, "who looked is not blind any more"


def test_the_ledger_keeps_back_what_would_unblind_until_the_end(
    scene: Scene, client: Client
) -> None:
    body = {"samples": {"new": lines("**New**"), "old": lines("Old")}, "peeking": True}
    tells = make(scene, client, **body).json()["tells"]
    assert tells
    vote_all(scene, client, "bob", "**New**")
    headers = scene.session(client, "ann")
    assert client.post(f"{API}/letters/looks", headers=headers).status_code == 200
    scene.session(client, "cat")
    events = client.get("/api/v1/ledger/events?subject=review:letters").json()["items"]
    assert [one["withheld"] for one in events] == [["numbers"], ["tells"]]
    shown = client.get("/ledger?subject=review:letters").text
    assert "Markdown" not in shown
    assert "Kept back until the review is closed: numbers" in shown
    close(scene, client)
    events = client.get("/api/v1/ledger/events?subject=review:letters").json()["items"]
    assert [one["withheld"] for one in events] == [[], [], []]
    assert events[-1]["payload"]["tells"] == tells


@pytest.mark.parametrize(("person", "status"), [("bob", 403), ("tom", 403), ("eve", 200)])
def test_a_review_is_closed_by_those_who_may(
    scene: Scene, client: Client, person: str, status: int
) -> None:
    make(scene, client)
    assert close(scene, client).status_code == 409, "votes are missing"
    vote_all(scene, client, "ann")
    assert close(scene, client, person).status_code == status
    headers = scene.session(client, "bob")
    vote = {"token": "0" * 32, "answered": "a"}
    late = client.post(f"{API}/letters/votes", json=vote, headers=headers)
    assert late.status_code == (409 if status == 200 else 404)


@pytest.mark.parametrize("way", ["", "/next", "/outcome", "/key", "/ballots"])
def test_an_unknown_review_or_label_set_is_a_problem_document(
    scene: Scene, client: Client, way: str
) -> None:
    scene.session(client, "bob")
    for place in (API, LABELS):
        if place == LABELS and way in ("/outcome", "/key", "/ballots"):
            continue
        told = client.get(f"{place}/nothing{way}")
        assert told.status_code == 404, (place, way)
        assert told.headers["content-type"] == "application/problem+json"
        assert told.json()["detail"]
    for page in ("/reviews/nothing", "/labels/nothing"):
        assert client.get(page).status_code == 404


def test_a_review_of_a_version_names_it_and_one_of_nobody_is_refused(
    scene: Scene, client: Client
) -> None:
    scene.add("2.0.0")
    assert make(scene, client, assets={"new": f"{ASSET}@9.9.9"}).status_code == 422
    assert make(scene, client, assets={"new": f"{ASSET}@2.0.0"}).status_code == 201
    vote_all(scene, client, "bob")
    sealed = close(scene, client).json()["candidates"][0]["result_id"]
    about = client.get(f"/api/v1/results/{sealed}").json()["candidate"]
    assert about == {"id": f"{ASSET}/2.0.0", "digest": digest("2.0.0")}


def test_samples_that_cannot_be_read_are_told_by_arm_and_line(scene: Scene, client: Client) -> None:
    bad = {"new": lines("New") + '{"schema": "gatemark.sample/1", "id": 5}\n', "old": lines("Old")}
    told = make(scene, client, samples=bad)
    assert told.status_code == 422
    assert "new:21" in told.text
    assert "/tmp" not in told.text
    short = make(scene, client, samples={"new": lines("New", 3), "old": lines("Old", 2)})
    assert (short.status_code, "'q02'" in short.text) == (422, True)
    assert make(scene, client, samples={"new": "/etc/passwd", "old": "x"}).status_code == 422


def test_a_sample_of_fifty_megabytes_is_refused_in_words(scene: Scene, client: Client) -> None:
    mark = scene.session(client, "eve")["X-CSRF-Token"]
    cookie = client.cookies.get("gatemark")
    head = (
        f"POST {API} HTTP/1.1\r\nHost: localhost\r\nCookie: gatemark={cookie}\r\n"
        f"X-CSRF-Token: {mark}\r\nContent-Type: application/json\r\n"
        'Content-Length: 50000000\r\n\r\n{"name": "huge", "samples": {"new": "'
    )
    where = (client.base_url.host, client.base_url.port or 0)
    with socket.create_connection(where, timeout=10) as line:
        line.sendall(head.encode() + b"x" * 1000)
        told = b"".join(iter(lambda: line.recv(65536), b"")).decode()
    assert told.startswith("HTTP/1.1 413")
    assert "application/problem+json" in told
    assert "a body must be at most 1048576 bytes" in told
    assert client.get(API).json()["items"] == []


def label_set(scene: Scene, client: Client, **more: Any) -> Response:
    headers = scene.session(client, "eve")
    body = {
        "name": "tone",
        "labels": ["good", "bad"],
        "source": "pilot, May",
        "samples": lines("Said", 3),
        **more,
    }
    return client.post(LABELS, json=body, headers=headers)


def give(scene: Scene, client: Client, person: str, word: str) -> int:
    headers = scene.session(client, person)
    count = 0
    while (found := client.get(f"{LABELS}/tone/next").json())["item"] is not None:
        body = {"item": found["item"]["id"], "label": word}
        assert client.post(f"{LABELS}/tone/marks", json=body, headers=headers).status_code == 200
        count += 1
    return count


def test_labels_count_when_an_owner_accepts_them(scene: Scene, client: Client) -> None:
    assert label_set(scene, client, labels_per_item=2).json()["items"] == 3
    assert [give(scene, client, person, "good") for person in ("ann", "bob")] == [3, 3]
    there = f"{LABELS}/tone/acceptance"
    for person in ("tom", "bob", "root"):
        headers = scene.session(client, person)
        assert client.post(there, json={}, headers=headers).status_code == 403, person
        assert client.get(f"{LABELS}/tone/dataset").status_code == 409
    headers = scene.session(client, "eve")
    done = client.post(there, json={}, headers=headers).json()
    assert (done["accepted_count"], done["in_all_count"]) == (3, 3)
    rows = [json.loads(row) for row in client.get(f"{LABELS}/tone/dataset").text.splitlines()]
    assert rows[0]["label_reviewers"] == ["ann", "bob"]
    assert (rows[0]["label_source"], rows[0]["label_accepted_by"]) == ("pilot, May", "eve")


def test_label_versions_are_told_with_source_and_reviewer_to_owners_alone(
    scene: Scene, client: Client
) -> None:
    label_set(scene, client, labels_per_item=2)
    give(scene, client, "ann", "good")
    give(scene, client, "bob", "bad")
    headers = scene.session(client, "bob")
    body = {"item": "q00", "label": "good", "note": "looked again"}
    changed = client.post(f"{LABELS}/tone/marks", json=body, headers=headers).json()
    assert changed["version"] == 2
    rows = client.get(f"{LABELS}/tone/items?limit=2").json()
    assert rows["next"] == 2
    assert {mark["reviewer"] for mark in rows["items"][0]["marks"]} == {"bob"}
    assert rows["items"][1]["waits_for"] is None
    assert len(client.get(f"{LABELS}/tone/items?after=2").json()["items"]) == 1
    headers = scene.session(client, "eve")
    row = client.get(f"{LABELS}/tone/items").json()["items"][0]
    told = [(mark["reviewer"], mark["version"], mark["label"]) for mark in row["marks"]]
    assert told == [("ann", 1, "good"), ("bob", 1, "bad"), ("bob", 2, "good")]
    assert (row["source"], row["proposal"]) == ("pilot, May", "good")
    chosen = {"chosen": {"q01": "bad"}}
    done = client.post(f"{LABELS}/tone/acceptance", json=chosen, headers=headers).json()
    assert (done["accepted_count"], list(done["open"])) == (2, ["q02"])


def test_a_viewer_labels_nothing_and_bad_labels_are_refused(scene: Scene, client: Client) -> None:
    label_set(scene, client)
    headers = scene.session(client, "tom")
    assert client.get(f"{LABELS}/tone/next").status_code == 403
    body = {"item": "q00", "label": "good"}
    assert client.post(f"{LABELS}/tone/marks", json=body, headers=headers).status_code == 403
    headers = scene.session(client, "bob")
    for change, status in (({"label": "fine"}, 422), ({"item": "q99"}, 404)):
        told = client.post(f"{LABELS}/tone/marks", json=body | change, headers=headers)
        assert told.status_code == status
    assert label_set(scene, client).status_code == 409, "there is one already"
    assert label_set(scene, client, name="two", labels=["x"]).status_code == 422


def test_no_field_of_a_review_or_label_becomes_markup(scene: Scene, client: Client) -> None:
    question = {"question": HOSTILE, "note": HOSTILE}
    assert make(scene, client, 2, tail=HOSTILE, **question).status_code == 201
    headers = scene.session(client, "bob")
    pages = ["/reviews", "/reviews/letters", "/reviews/letters?begin=yes"]
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    vote = {"token": token, "answered": "skip", "reason": HOSTILE}
    assert client.post(f"{API}/letters/votes", json=vote, headers=headers).status_code == 200
    pages += [f"/reviews/letters?pair={token}"]
    more = {"source": HOSTILE, "question": HOSTILE, "labels": [HOSTILE, "bad"]}
    assert label_set(scene, client, samples=lines("Said", 2, HOSTILE), **more).status_code == 201
    headers = scene.session(client, "bob")
    mark = {"item": "q00", "label": HOSTILE, "note": HOSTILE}
    assert client.post(f"{LABELS}/tone/marks", json=mark, headers=headers).status_code == 200
    pages += ["/labels", "/labels/tone", "/labels/tone/items"]
    shown = {address: client.get(address).text for address in pages}
    assert close(scene, client, early=HOSTILE).status_code == 200
    shown |= {f"{one} closed": client.get(one).text for one in ("/reviews", "/reviews/letters")}
    shown["ledger"] = client.get("/ledger").text
    for address, text in shown.items():
        assert "<script>alert" not in text, address
        assert "<img" not in text, address
        assert 'href="javascript:' not in text, address
        assert "&lt;script&gt;alert" in text, address


@pytest.mark.parametrize("mark", ["", "0" * 64])
def test_a_form_of_another_session_changes_nothing(scene: Scene, client: Client, mark: str) -> None:
    make(scene, client)
    label_set(scene, client)
    scene.session(client, "eve")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    forms = {
        "/reviews/letters": {"pair": token, "answered": "a"},
        "/reviews/letters/close": {"early": "now"},
        "/reviews/letters/look": {},
        "/labels/tone": {"item": "q00", "label": "good"},
        "/labels/tone/items": {},
    }
    for address, fields in forms.items():
        sent = client.post(address, data=fields | {"form_mark": mark})
        assert sent.status_code == 403, address
    assert scene.house.reviews.votes("letters") == []
    assert scene.house.labels.marks("tone") == []
    assert scene.house.reviews.get("letters").closing is None


def test_the_forms_do_what_the_interface_does(scene: Scene, client: Client) -> None:
    scene.session(client, "eve")
    fields = {
        "form_mark": scene.mark(client),
        "name": "letters",
        "candidate": lines("New", 1),
        "baseline": lines("Old", 1),
        "peeking": "yes",
    }
    assert client.post("/new-review", data=fields).status_code == 303
    assert (
        client.post("/new-review", data=fields | {"name": "b", "votes_per_pair": "x"}).status_code
        == 422
    )
    scene.session(client, "bob")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    ballot = {"form_mark": scene.mark(client), "pair": token}
    there = "/reviews/letters"
    assert client.post(there, data=ballot | {"answered": "c"}).status_code == 422
    unsaid = client.post(there, data=ballot | {"answered": "skip"})
    assert (unsaid.status_code, "needs a reason" in unsaid.text) == (422, True)
    assert client.post(there, data=ballot | {"answered": "b"}).status_code == 303
    scene.session(client, "ann")
    looked = client.post(f"{there}/look", data={"form_mark": scene.mark(client)})
    assert (looked.status_code, "1 decisive pairs" in looked.text) == (200, True)
    for person, status in (("bob", 403), ("eve", 303)):
        scene.session(client, person)
        ended = client.post(f"{there}/close", data={"form_mark": scene.mark(client)})
        assert ended.status_code == status
    assert "INCONCLUSIVE" in client.get(there).text
    labels = {"form_mark": scene.mark(client), "name": "tone", "labels": "good\nbad", "source": "x"}
    samples = {"samples": lines("Said", 1)}
    assert client.post("/new-labels", data=labels | samples).status_code == 303
    scene.session(client, "bob")
    given = {"form_mark": scene.mark(client), "item": "q00", "label": "good"}
    assert client.post("/labels/tone", data=given).status_code == 303
    scene.session(client, "eve")
    done = client.post("/labels/tone/items", data={"form_mark": scene.mark(client)})
    assert done.headers["location"].endswith("done=accepted")
    assert client.get("/labels/tone/dataset").json()["label"] == "good"


def test_an_owner_alone_accepts_nothing_and_is_told_why(scene: Scene, client: Client) -> None:
    label_set(scene, client)
    give(scene, client, "eve", "good")
    told = client.post("/labels/tone/items", data={"form_mark": scene.mark(client)})
    assert "Nothing was accepted" in told.text
    assert "only eve gave this label" in told.text
    assert scene.house.labels.accepted("tone") == {}


def test_what_is_written_keeps_its_lines_and_hides_nothing(scene: Scene, client: Client) -> None:
    make(scene, client)
    scene.session(client, "bob")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    fields = {"form_mark": scene.mark(client), "pair": token, "answered": "a"}
    hidden = client.post("/reviews/letters", data=fields | {"reason": "a\x00b"})
    assert (hidden.status_code, "control characters" in hidden.text) == (422, True)
    kept = client.post("/reviews/letters", data=fields | {"reason": "one\r\ntwo"})
    assert kept.status_code == 303
    assert [vote.reason for vote in scene.house.reviews.votes("letters")] == ["one\ntwo"]
    assert client.get("/reviews/a%00b").status_code == 404
    assert client.get("/labels/a%00b").status_code == 404


def test_reviews_come_page_by_page_without_gaps(scene: Scene, client: Client) -> None:
    for number in range(5):
        assert make(scene, client, 1, name=f"r{number}").status_code == 201
        label_set(scene, client, name=f"s{number}")
    for place, field, letter in ((API, "review", "r"), (LABELS, "labels", "s")):
        seen, cursor = [], ""
        while cursor is not None:
            found = client.get(f"{place}?limit=2{cursor and f'&after={cursor}'}").json()
            seen += [one[field] for one in found["items"]]
            cursor = found["next"]
        assert sorted(seen) == [f"{letter}{number}" for number in range(5)]
        assert client.get(f"{place}?after=nothing").status_code == 404


def test_reviews_and_labels_live_in_postgresql_too(postgres_url: str) -> None:
    scene = Scene(postgres_url)
    with scene.running() as client:
        assert make(scene, client, 2).status_code == 201
        assert len(vote_all(scene, client, "bob")) == 2
        assert close(scene, client).json()["verdict"] == "inconclusive"
        assert client.get("/reviews/letters").status_code == 200
        assert label_set(scene, client).status_code == 201
        assert give(scene, client, "bob", "good") == 3
        headers = scene.session(client, "eve")
        done = client.post(f"{LABELS}/tone/acceptance", json={}, headers=headers).json()
        assert done["accepted_count"] == 3
        assert "accepted by eve" in client.get("/labels/tone/items").text
        assert client.get("/").status_code == 200
    scene.house.store.close()
