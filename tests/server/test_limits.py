"""What a busy, broken or hostile network meets: outages, idle connections, proxies, odd bodies."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Client
from tests.server.scene import ASSET, PASSWORD, Scene, new_scene

from gatemark.core.errors import OutageError, UsageError
from gatemark.ledger.stores.database import SqlDatabase
from gatemark.server.accounts.nouns import derive_form_token
from gatemark.server.guards import client_of
from gatemark.server.settings import ServerSettings, check_settings
from gatemark.workspace import Workspace


@contextmanager
def _down(_: SqlDatabase) -> Iterator[sa.Connection]:
    raise OutageError("postgresql://db/gm: is not a usable store: connection refused")
    yield  # type: ignore[unreachable]


@pytest.mark.parametrize("address", ["/", "/api/v1/ledger", "/sign-in"])
def test_an_outage_is_503_and_says_when_to_come_back(
    scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    scene.session(client, "bob")
    monkeypatch.setattr(SqlDatabase, "reading", _down)
    monkeypatch.setattr(SqlDatabase, "streaming", _down)
    answer = client.get(address)
    if address == "/sign-in":
        # Nothing of it comes from the store.
        assert answer.status_code in (200, 503)
        return
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


def test_a_database_that_does_not_answer_is_an_outage() -> None:
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    workspace = Workspace(store=f"postgresql://gm:x@127.0.0.1:{port}/gm")
    with pytest.raises(OutageError, match="is not a usable store"):
        workspace.existing_store()


def test_one_address_holds_few_idle_connections(tmp_path: Path) -> None:
    scene = new_scene(tmp_path, idle_per_address=5)
    with scene.running() as client:
        where = (client.base_url.host, client.base_url.port or 0)
        waiting = [socket.create_connection(where, timeout=20) for _ in range(12)]
        assert client.get("/sign-in").status_code == 200
        for early in waiting[:6]:
            assert early.recv(1) == b""
        last = waiting[-1]
        last.sendall(b"GET /sign-in HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert last.recv(100).startswith(b"HTTP/1.1 200")
        for one in waiting:
            one.close()
    scene.workspace.store.close()


def behind(tmp_path: Path, **more: Any) -> Scene:
    address = "https://gate.example"
    return new_scene(tmp_path, is_behind_proxy=True, public_url=address, sign_ins=2, **more)


def failing(client: Client, forwarded: str) -> int:
    body = {"name": f"nobody-{forwarded}", "password": PASSWORD}
    headers = {"X-Forwarded-For": forwarded}
    return client.post("/api/v1/session", json=body, headers=headers).status_code


def test_buckets_are_per_client_behind_a_proxy_that_is_named(tmp_path: Path) -> None:
    scene = behind(tmp_path)
    with scene.running() as client:
        tries = [failing(client, f"192.0.2.{number}") for number in range(6)]
        again = [failing(client, "192.0.2.1") for _ in range(3)]
    assert 429 not in tries
    assert again[-1] == 429
    scene.workspace.store.close()


def test_the_addresses_of_one_ipv6_network_are_one_client(tmp_path: Path) -> None:
    """A single machine has 2**64 of them, and could try a password from each."""
    scene = behind(tmp_path)
    with scene.running() as client:
        tries = [failing(client, f"2001:db8::{number:x}") for number in range(6)]
        other = failing(client, "2001:db8:0:1::1")
    assert tries[-1] == 429
    assert other != 429
    scene.workspace.store.close()


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("unknown", "unknown"),
    ],
)
def test_what_counts_as_one_client(address: str, client: str) -> None:
    assert client_of(address) == client


def test_the_word_of_other_proxies_does_not_count(tmp_path: Path) -> None:
    scene = behind(tmp_path, trusted_proxies=("10.1.2.0/24",))
    with scene.running() as client:
        tries = [failing(client, f"192.0.2.{number}") for number in range(6)]
    assert tries[2:] == [429] * 4
    scene.workspace.store.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trusted_proxies": ("10.0.0.1",)}, "needs --behind-proxy"),
        (
            {
                "trusted_proxies": ("everybody",),
                "is_behind_proxy": True,
                "public_url": "https://gate.example",
            },
            "must be an address or a network",
        ),
    ],
)
def test_proxies_are_named_by_address(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_settings(ServerSettings(**settings))


def events(scene: Scene) -> list[Any]:
    return [payload for _, payload in scene.workspace.events.events(kind="sign_in_failed")]


def test_failed_sign_ins_are_summed_up(scene: Scene, client: Client) -> None:
    body = {"name": "nobody", "password": PASSWORD}
    for _ in range(20):
        assert client.post("/api/v1/session", json=body).status_code == 403
    (first,) = events(scene)
    assert (first["name"], first["count"]) == ("nobody", 1)
    scene.clock.now += timedelta(hours=1)
    client.post("/api/v1/session", json={**body, "name": "root"})
    _, second = events(scene)
    assert second["count"] == 20
    assert second["names"] == {"nobody": 19, "root": 1}
    assert second["places"] == {"127.0.0.1": 20}


def test_failed_sign_ins_are_told_when_the_server_stops(tmp_path: Path) -> None:
    scene = new_scene(tmp_path)
    with scene.running() as client:
        for _ in range(3):
            client.post("/api/v1/session", json={"name": "nobody", "password": PASSWORD})
    assert [one["count"] for one in events(scene)] == [1, 2]
    scene.workspace.store.close()


def test_whose_sign_in_failed_is_for_admins(scene: Scene, client: Client) -> None:
    client.post("/api/v1/session", json={"name": "my-password-by-mistake", "password": PASSWORD})
    shown = {}
    for person in ("tom", "root"):
        scene.session(client, person)
        page = client.get("/ledger?kind=sign_in_failed").text
        document = client.get("/api/v1/ledger/events?kind=sign_in_failed").text
        shown[person] = ["my-password-by-mistake" in text for text in (page, document)]
    assert shown == {"tom": [False, False], "root": [True, True]}


BODIES = [
    b'{"name": "ann", "name": "bob", "roles": []}',
    b'{"name": "\\ud800", "roles": []}',
    b'{"name": "x", "roles": [], "more": {"a": 1, "a": 2}}',
    b'{"name": NaN, "roles": []}',
    b"[" * 100_000,
    b'{"name": "\xff"}',
]
ROUTES = [
    ("POST", "/api/v1/people"),
    ("POST", "/api/v1/session"),
    ("POST", "/api/v1/tokens"),
    ("PUT", "/api/v1/people/bob/roles"),
    ("POST", f"/api/v1/assets/{ASSET}/versions/1.0.0/promotion"),
    ("POST", f"/api/v1/assets/{ASSET}/rollback"),
    ("POST", "/api/v1/drift/points"),
    ("POST", "/api/v1/runs"),
    ("POST", "/api/v1/reviews"),
]


def test_bodies_that_two_readers_understand_differently_are_refused_everywhere(
    scene: Scene, client: Client
) -> None:
    headers = scene.session(client, "root") | {"Content-Type": "application/json"}
    for method, address in ROUTES:
        for body in BODIES:
            answer = client.request(method, address, content=body, headers=headers)
            assert answer.status_code == 422, (address, body[:40], answer.text)
            assert "the request body is not valid JSON" in answer.text


@pytest.mark.parametrize("query", ["kind=a&kind=b", "limit=1&limit=2", "kind=%ED%A0%80"])
def test_repeated_and_broken_parameters_are_refused(
    scene: Scene, client: Client, query: str
) -> None:
    scene.session(client, "root")
    for address in ("/ledger", "/api/v1/ledger/events"):
        assert client.get(f"{address}?{query}").status_code == 400


def test_a_form_that_repeats_a_field_is_refused(scene: Scene, client: Client) -> None:
    scene.account("bob")
    client.get("/sign-in")
    mark = derive_form_token(str(client.cookies.get("gatemark-form")))
    content = f"form_mark={mark}&name=bob&name=root&password=x"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/sign-in", content=content, headers=kind).status_code == 422
