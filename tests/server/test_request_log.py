"""Request ids, and what the server logs of a request."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from httpx2 import Client
from tests.server.scene import PASSWORD, Scene

from gatemark.logs import configure_logs, stop_logs
from gatemark.server.accounts.open_stores import people_of

MADE = re.compile(r"[0-9a-f]{32}")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs("debug", "json", stream)
    yield stream
    stop_logs()


def records(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_valid_request_id_comes_back_and_is_in_every_record(
    scene: Scene, log: io.StringIO
) -> None:
    with scene.running() as client:
        headers = scene.session(client, "root") | {"X-Request-ID": "job-7.a_1"}
        body = {"name": "new", "roles": ["viewer"]}
        answer = client.post("/api/v1/people", json=body, headers=headers)
    assert answer.headers["x-request-id"] == "job-7.a_1"
    mine = {one["message"]: one for one in records(log) if one.get("request_id") == "job-7.a_1"}
    # The ledger is written by another thread than the one that took the request.
    assert {"events appended", "request"} <= set(mine)
    assert mine["request"]["method"] == "POST"
    assert mine["request"]["status"] == answer.status_code
    assert mine["request"]["route"] == "/api/v1/people"


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 65, "<script>", "-x", "é".encode()])
def test_another_request_id_is_replaced(client: Client, given: Any) -> None:
    headers = {} if given is None else {"X-Request-ID": given}
    assert MADE.fullmatch(client.get("/sign-in", headers=headers).headers["x-request-id"])


def test_two_request_ids_are_none(client: Client) -> None:
    twice = [("X-Request-ID", "a"), ("X-Request-ID", "b")]
    assert MADE.fullmatch(client.get("/sign-in", headers=twice).headers["x-request-id"])


def test_a_refusal_has_an_id_and_a_record(scene: Scene, log: io.StringIO) -> None:
    with scene.running() as client:
        lost = client.get("/api/v1/nowhere", headers={"X-Request-ID": "r1"})
        wrong = client.get("/sign-in", headers={"X-Request-ID": "r2", "Host": "elsewhere"})
    assert (lost.headers["x-request-id"], wrong.headers["x-request-id"]) == ("r1", "r2")
    said = {
        (one["request_id"], one["message"]): one.get("status")
        for one in records(log)
        if "request_id" in one
    }
    assert said["r1", "refused"] == said["r1", "request"] == 404
    assert said["r2", "request refused"] == said["r2", "request"] == 421


def test_a_failure_has_an_id_and_names_the_exception_only(
    scene: Scene, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("hunter2")

    with scene.running() as client:
        monkeypatch.setattr("gatemark.server.site.refresh_state", fail)
        answer = client.get("/api/v1/overview", headers={"X-Request-ID": "r3"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "r3")
    (failed,) = [one for one in records(log) if one["message"] == "request failed"]
    assert (failed["request_id"], failed["exception"]) == ("r3", "ZeroDivisionError")
    assert "hunter2" not in log.getvalue()


def test_passwords_links_tokens_and_bodies_are_in_no_record(scene: Scene, log: io.StringIO) -> None:
    scene.account("ann")
    link = people_of(scene.workspace).new_link("bob", scene.clock())
    with scene.running() as client:
        client.get(f"/join/{link}")
        client.post("/sign-in", data={"name": "ann", "password": PASSWORD})
        cookie = str(client.cookies.get("gatemark"))
        headers = scene.session(client, "root")
        body = {"label": "laptop", "scopes": ["read"], "days": 7}
        made = client.post("/api/v1/tokens", json=body, headers=headers)
        token = made.json()["secret"]
        client.cookies.clear()
        bearer = {"Authorization": f"Bearer {token}"}
        assert client.get("/api/v1/overview?secret=query-of-ann", headers=bearer).status_code == 200
        client.get("/api/v1/overview", headers={"Authorization": "Bearer wrong-but-close"})
    assert len(records(log)) >= 5
    text = log.getvalue()
    secrets = (link, PASSWORD, cookie, token, "wrong-but-close", "query-of-ann", "laptop")
    assert not [secret for secret in secrets if secret in text]
