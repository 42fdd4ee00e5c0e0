"""A server dies between an act and its answer: the same key never does it a second time."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from httpx2 import Client
from tests.server.scene import ASSET, Scene

from gatemark.core.canonical import digest
from gatemark.core.errors import OutageError
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import Promote
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.server.accounts.open_stores import answers_of
from gatemark.server.accounts.stores.answers import SqlAnswers
from gatemark.server.accounts.stores.people import SqlPeople

ADDRESS = f"/api/v1/assets/{ASSET}"


class Visit:
    """Somebody who repeats a request after the server that ran it was killed."""

    def __init__(self, scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scene, self.client, self.patch = scene, client, monkeypatch

    def twice(self, who: str, address: str, body: dict[str, Any], *, has_lock: bool = False) -> Any:
        """The answer to the repetition, and the kinds of the events that it wrote."""
        headers = self.scene.session(self.client, who) | {"Idempotency-Key": "k-1"}
        if has_lock:
            headers["If-Match"] = self.client.get(ADDRESS).headers["etag"]
        with self.patch.context() as dying:
            dying.setattr(SqlAnswers, "keep", lambda *_: None)
            first = self.client.post(address, json=body, headers=headers)
        assert first.status_code < 300, first.text
        before = self.scene.workspace.events.head().seq
        running = self.client.post(address, json=body, headers=headers)
        assert running.json()["detail"] == "the same request is still running"
        self.scene.clock.now += timedelta(seconds=61)
        again = self.client.post(address, json=body, headers=headers)
        written = [event.kind for event, _ in self.scene.workspace.events.events(before)]
        return first, again, written


@pytest.fixture
def visit(scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch) -> Visit:
    return Visit(scene, client, monkeypatch)


def test_a_demotion_does_not_take_the_next_version_too(visit: Visit) -> None:
    scene = visit.scene
    scene.enable("1.0.0")
    for version in ("1.1.0", "1.2.0"):
        scene.to_shadow(version)
        why = {"to": "enabled", "incident": "INC-1", "note": "outage"}
        act(scene.workspace, Promote(actor="olu", asset=ASSET, version=version, **why))
    _, again, written = visit.twice("olu", f"{ADDRESS}/demotion", {"note": "complaints"})
    assert written == []
    assert read_state(scene.workspace, ASSET).asset.place("production").enabled == "1.1.0"
    assert (again.status_code, "was carried out" in again.json()["detail"]) == (409, True)


def test_a_promotion_that_was_carried_out_says_so(visit: Visit) -> None:
    visit.scene.add("1.0.0")
    address = f"{ADDRESS}/versions/1.0.0/promotion"
    first, again, written = visit.twice("ann", address, {"to": "evaluating"}, has_lock=True)
    assert written == []
    (number,) = first.json()["events"]
    assert (again.status_code, again.json()["reasons"][0]) == (
        409,
        f"event {number}: transition of {ASSET}",
    )


@pytest.mark.parametrize(
    ("who", "address", "body", "kind"),
    [
        ("ann", "/api/v1/tokens", {"label": "ci", "scopes": ["read"], "days": 3}, "token_made"),
        ("root", "/api/v1/people/bob/links", {}, "access_given"),
        ("root", "/api/v1/people", {"name": "new", "roles": ["viewer"]}, "account_added"),
    ],
)
def test_nothing_that_lets_people_in_is_made_twice(
    visit: Visit, who: str, address: str, body: dict[str, Any], kind: str
) -> None:
    _, again, written = visit.twice(who, address, body)
    assert (written, again.status_code) == ([], 409)
    assert any(kind in reason for reason in again.json()["reasons"])
    assert "new Idempotency-Key" in again.json()["detail"]


def test_what_may_be_repeated_is_repeated_to_its_end(visit: Visit) -> None:
    body = {"kind": "prompt", "digest": digest("1.0.0")}
    _, again, written = visit.twice("ann", f"{ADDRESS}/versions/1.0.0", body)
    assert (written, again.status_code) == ([], 200)
    assert again.json() == {"changed": False, "events": []}


def test_a_request_that_failed_halfway_is_not_decided_again(
    scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> str:
        raise OutageError("the database is down")

    headers = scene.session(client, "root") | {"Idempotency-Key": "k-2"}
    body = {"name": "new", "roles": ["viewer"]}
    with monkeypatch.context() as failing:
        failing.setattr("gatemark.server.accounts.stores.people.SqlPeople.new_link", down)
        assert client.post("/api/v1/people", json=body, headers=headers).status_code == 503
    again = client.post("/api/v1/people", json=body, headers=headers)
    assert (again.status_code, "was carried out" in again.json()["detail"]) == (409, True)


def test_keys_of_others_and_requests_without_one_are_not_noted(
    scene: Scene, client: Client
) -> None:
    headers = scene.session(client, "ann") | {"Idempotency-Key": "k-3"}
    token = {"label": "ci", "scopes": ["read"], "days": 3}
    assert client.post("/api/v1/tokens", json=token, headers=headers).status_code == 201
    plain = {name: value for name, value in headers.items() if name != "Idempotency-Key"}
    assert client.post("/api/v1/tokens", json=token, headers=plain).status_code == 201
    kept = client.post("/api/v1/tokens", json=token, headers=headers)
    assert (kept.status_code, kept.headers["idempotency-replayed"]) == (201, "true")


def test_a_dead_key_is_not_taken_over_by_another_request(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "ann") | {"Idempotency-Key": "k-4"}
    answers_of(scene.workspace).begin("ann", "k-4", digest("another request"), scene.clock())
    scene.clock.now += timedelta(seconds=61)
    body = {"kind": "prompt", "digest": digest("1.0.0")}
    refused = client.post(f"{ADDRESS}/versions/1.0.0", json=body, headers=headers)
    assert (refused.status_code, "different request" in refused.text) == (422, True)


def test_a_server_says_that_a_slow_request_is_alive(
    scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = threading.Event()
    monkeypatch.setattr("gatemark.server.idempotency.ALIVE_S", 0.04)
    monkeypatch.setattr(SqlAnswers, "touch", lambda *_: touched.set())
    slow = SqlPeople.new_link

    def wait(people: SqlPeople, person: str | None, now: datetime) -> str:
        assert touched.wait(30), "nobody said that the request is running"
        return slow(people, person, now)

    headers = scene.session(client, "root") | {"Idempotency-Key": "k-5"}
    scene.account("bob")
    monkeypatch.setattr(SqlPeople, "new_link", wait)
    made = client.post("/api/v1/people/bob/links", headers=headers)
    assert (made.status_code, touched.is_set()) == (201, True)
