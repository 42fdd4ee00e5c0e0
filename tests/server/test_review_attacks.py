"""What an open review must not tell or allow, whoever asks and however."""

from __future__ import annotations

import json
import re
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from httpx2 import Client
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from tests.server.review_talk import (
    API,
    HOSTILE,
    LABELS,
    close,
    label_set,
    lines,
    make,
    vote_all,
)
from tests.server.scene import Scene, new_scene, serving

from gatemark.release.review.create import review_key
from gatemark.release.review.open_stores import label_sets_of, reviews_of


def test_what_a_reviewer_gets_tells_nothing_about_the_arms(scene: Scene, client: Client) -> None:
    make(scene, client)
    seen = vote_all(scene, client, "bob")
    assert len({tuple(pair) for pair in seen}) == 1, "one shape, one order of fields"
    for pair in seen:
        rest = json.dumps({key: pair[key] for key in pair if key not in ("input", "a", "b")})
        assert not re.search(r"new|old|candidate|baseline|q\d\d|gold", rest, re.IGNORECASE)
    card = client.get(f"{API}/letters").text
    assert not re.search(r'"new"|"old"|win|number', card)


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
    stored = reviews_of(scene.workspace).get("letters")
    key = review_key(scene.workspace, stored).hex()
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
    assert reviews_of(scene.workspace).votes("letters") == []


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
    assert [one["withheld"] for one in events] == [["numbers"], *[["digest"]] * 20, ["tells"]]
    shown = client.get("/ledger?subject=review:letters").text
    assert "Markdown" not in shown
    assert "Hidden until the review is closed: numbers" in shown
    close(scene, client)
    events = client.get("/api/v1/ledger/events?subject=review:letters").json()["items"]
    assert [one["withheld"] for one in events] == [[]] * 23
    assert events[-1]["payload"]["tells"] == tells


def test_samples_that_cannot_be_read_are_told_by_arm_and_line(scene: Scene, client: Client) -> None:
    bad = {"new": lines("New") + '{"schema": "gatemark.sample/1", "id": 5}\n', "old": lines("Old")}
    told = make(scene, client, samples=bad)
    assert told.status_code == 422
    assert "new:21" in told.text
    assert tempfile.gettempdir() not in told.text
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
        "/reviews/letters": {"token": token, "answered": "a"},
        "/reviews/letters/close": {"early": "now"},
        "/reviews/letters/look": {},
        "/labels/tone": {"item": "q00", "label": "good"},
        "/labels/tone/items": {},
    }
    for address, fields in forms.items():
        sent = client.post(address, data=fields | {"form_mark": mark})
        assert sent.status_code == 403, address
    assert reviews_of(scene.workspace).votes("letters") == []
    assert label_sets_of(scene.workspace).marks("tone") == []
    assert reviews_of(scene.workspace).get("letters").closing is None


def test_what_is_written_keeps_its_lines_and_hides_nothing(scene: Scene, client: Client) -> None:
    make(scene, client)
    scene.session(client, "bob")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    fields = {"form_mark": scene.mark(client), "token": token, "answered": "a"}
    hidden = client.post("/reviews/letters", data=fields | {"reason": "a\x00b"})
    assert (hidden.status_code, "control characters" in hidden.text) == (422, True)
    kept = client.post("/reviews/letters", data=fields | {"reason": "one\r\ntwo"})
    assert kept.status_code == 303
    assert [vote.reason for vote in reviews_of(scene.workspace).votes("letters")] == ["one\ntwo"]
    assert client.get("/reviews/a%00b").status_code == 404
    assert client.get("/labels/a%00b").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("state", ["open", "closed"])
def test_whatever_is_asked_of_a_review_no_answer_is_an_error_of_the_server(
    tmp_path: Path, state: str
) -> None:
    scene = new_scene(tmp_path)
    app = scene.app()
    with (
        serving(app, scene.settings) as address,
        Client(base_url=address, timeout=30, verify=False) as client,
    ):
        make(scene, client, 3, peeking=True)
        label_set(scene, client, name="letters")
        if state == "closed":
            vote_all(scene, client, "bob")
            assert close(scene, client).status_code == 200
        headers = scene.session(client, "eve")
        cookie = {"Cookie": f"gatemark={client.cookies.get('gatemark')}"}
        schema = schemathesis.openapi.from_dict(client.get("/api/v1/openapi.json").json())
        schema.config.update(base_url=address)
        tried = 0
        for found in schema.get_all_operations():
            operation = found.ok()
            if not re.search(r"/(reviews|labels)\b", operation.path):
                continue
            if state == "open" and operation.path.endswith("/closing"):
                continue

            @settings(
                max_examples=6,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def holds(case: Any) -> None:
                if "name" in (case.path_parameters or {}):
                    case.path_parameters["name"] = "letters"
                case.call_and_validate(headers=headers | cookie, checks=[not_a_server_error])

            holds()
            tried += 1
        assert tried >= 18
    scene.workspace.store.close()
