from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from httpx2 import Client
from tests.server.scene import PASSWORD, Clock, Scene, new_scene

from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.server.accounts.identity import read_roles
from gatemark.server.accounts.links import join, make_first_link
from gatemark.server.accounts.nouns import derive_form_token
from gatemark.server.accounts.open_stores import people_of
from gatemark.server.accounts.stores.people import SESSION_HOURS
from gatemark.server.site import refresh_state
from gatemark.workspace import Workspace


def kinds(scene: Scene) -> list[str]:
    return [event.kind for event, _ in scene.workspace.events.events()]


def sign_in(client: Client, name: str, password: str) -> int:
    client.get("/sign-in")
    mark = derive_form_token(str(client.cookies.get("gatemark-form")))
    fields = {"form_mark": mark, "name": name, "password": password, "to": "/ledger"}
    return client.post("/sign-in", data=fields).status_code


def test_the_first_link_makes_the_admin_and_works_once(tmp_path: Path) -> None:
    clock = Clock()
    workspace = Workspace(store=str(tmp_path / "empty"), clock=clock)
    secret = make_first_link(workspace)
    scene = Scene.__new__(Scene)
    scene.clock, scene.store, scene.workspace = clock, str(tmp_path / "empty"), workspace
    scene.settings = new_scene(tmp_path / "other").settings
    with scene.running() as client:
        assert client.get(f"/join/{secret}").status_code == 200
        mark = derive_form_token(str(client.cookies.get("gatemark-form")))
        fields = {"form_mark": mark, "name": "root", "password": PASSWORD, "again": PASSWORD}
        short = client.post(f"/join/{secret}", data={**fields, "password": "a", "again": "a"})
        assert (short.status_code, "12 to 256" in short.text) == (422, True)
        assert client.post(f"/join/{secret}", data=fields).status_code == 303
        assert client.get("/people").status_code == 200
        client.cookies.delete("gatemark")
        assert client.post(f"/join/{secret}", data=fields).status_code == 404
    assert read_roles(workspace, "root") == ("admin",)
    assert make_first_link(workspace) is None
    stored = (tmp_path / "empty" / "gatemark.sqlite3").read_bytes()
    assert PASSWORD.encode() not in stored
    assert str(secret).encode() not in stored
    workspace.store.close()


def test_where_the_ledger_has_an_admin_the_first_link_is_for_nobody_else(scene: Scene) -> None:
    secret = make_first_link(scene.workspace)
    assert people_of(scene.workspace).link(str(secret), scene.clock()) == ("root",)


def test_a_link_for_the_first_admin_makes_no_second_one(tmp_path: Path) -> None:
    clock, store = Clock(), str(tmp_path / "empty")
    workspace, other = (Workspace(store=store, clock=clock) for _ in range(2))
    secret = make_first_link(workspace)
    refresh_state(workspace, once=True)
    assert read_roles(workspace, "root") == ()
    act(other, GrantRoles(actor="root", person="root", roles=("admin",)))
    join(workspace, str(secret), "bob", PASSWORD)
    assert (read_roles(workspace, "root"), read_roles(workspace, "bob")) == (("admin",), ())
    workspace.store.close()
    other.store.close()


def test_signing_in_and_failing_to_are_on_record(scene: Scene, client: Client) -> None:
    scene.account("bob")
    assert sign_in(client, "bob", "wrong password!") == 403
    assert sign_in(client, "nobody", PASSWORD) == 403
    assert sign_in(client, "bob", PASSWORD) == 303
    assert client.get("/").status_code == 200
    assert kinds(scene)[-2:] == ["sign_in_failed", "signed_in"]


def test_a_session_is_new_at_every_sign_in_and_the_one_before_ends(
    scene: Scene, client: Client
) -> None:
    scene.account("bob")
    planted = "planted-by-somebody-else"
    client.cookies.set("gatemark", planted)
    fields = {"form_mark": derive_form_token(planted), "name": "bob", "password": PASSWORD}
    done = client.post("/sign-in", data=fields)
    assert done.status_code == 303
    fresh = done.headers["set-cookie"].split("gatemark=")[1].split(";")[0]
    assert fresh != planted
    assert "HttpOnly" in done.headers["set-cookie"]
    assert "SameSite=lax" in done.headers["set-cookie"]
    assert people_of(scene.workspace).session(planted, scene.clock()) is None
    session = people_of(scene.workspace).session(fresh, scene.clock())
    assert session is not None
    assert (session.person, session.authentication) == ("bob", "password")


def test_a_session_ends_by_time_by_signing_out_and_with_its_account(
    scene: Scene, client: Client
) -> None:
    scene.session(client, "bob")
    assert client.get("/").status_code == 200
    scene.clock.now += timedelta(hours=SESSION_HOURS)
    assert client.get("/").status_code == 303
    headers = scene.session(client, "bob")
    assert client.delete("/api/v1/session", headers=headers).status_code == 200
    assert client.get("/").status_code == 303
    scene.session(client, "bob")
    bob = str(client.cookies.get("gatemark"))
    headers = scene.session(client, "root")
    assert client.delete("/api/v1/people/bob", headers=headers).status_code == 200
    client.cookies.set("gatemark", bob)
    assert client.get("/").status_code == 303
    assert read_roles(scene.workspace, "bob") == ()


def test_after_too_many_tries_one_has_to_wait(tmp_path: Path) -> None:
    scene = new_scene(tmp_path, sign_ins=3)
    scene.account("bob")
    with scene.running() as client:
        tries = [sign_in(client, "bob", "wrong password!") for _ in range(5)]
    assert tries == [403, 403, 403, 429, 429]
    failed = [payload for _, payload in scene.workspace.events.events(kind="sign_in_failed")]
    assert [one["count"] for one in failed if one] == [1, 2]
    scene.workspace.store.close()


def test_tokens_do_what_their_scopes_say_until_they_end(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "olu")
    wish = {"label": "ci", "scopes": ["read"], "days": 2}
    made = client.post("/api/v1/tokens", json=wish, headers=headers).json()
    bearer = {"Authorization": f"Bearer {made['secret']}"}
    client.cookies.clear()
    assert client.get("/api/v1/session", headers=bearer).json()["way"] == "token"
    scene.enable("1.0.0")
    body = {"note": "why"}
    refused = client.post("/api/v1/assets/triage/demotion", json=body, headers=bearer)
    assert refused.status_code == 403
    assert client.post("/api/v1/tokens", json=wish, headers=bearer).status_code == 403
    scene.clock.now += timedelta(days=2)
    assert client.get("/api/v1/session", headers=bearer).status_code == 401


def test_a_revoked_token_is_refused_at_once_and_only_its_owner_or_an_admin_revokes(
    scene: Scene, client: Client
) -> None:
    headers = scene.session(client, "olu")
    wish = {"label": "ci", "scopes": ["read", "act"], "days": 2}
    made = client.post("/api/v1/tokens", json=wish, headers=headers).json()
    bearer = {"Authorization": f"Bearer {made['secret']}"}
    address = f"/api/v1/tokens/{made['token']['id']}"
    headers = scene.session(client, "bob")
    assert client.get("/api/v1/tokens").json() == []
    assert client.delete(address, headers=headers).status_code == 404
    assert client.get("/api/v1/session", headers=bearer).status_code == 200
    headers = scene.session(client, "root")
    assert client.delete(address, headers=headers).status_code == 200
    assert client.get("/api/v1/session", headers=bearer).status_code == 401
    assert kinds(scene).count("token_revoked") == 1
    stored = Path(scene.store, "gatemark.sqlite3").read_bytes()
    assert made["secret"].split("_")[-1].encode() not in stored


def test_only_an_admin_in_person_adds_people_and_an_admin_cannot_approve(
    scene: Scene, client: Client
) -> None:
    headers = scene.session(client, "bob")
    body = {"name": "new", "roles": ["viewer"]}
    assert client.post("/api/v1/people", json=body, headers=headers).status_code == 403
    assert client.get("/api/v1/people", headers=headers).status_code == 403
    headers = scene.session(client, "root")
    both = {"name": "new", "roles": ["admin", "approver"]}
    refused = client.post("/api/v1/people", json=both, headers=headers)
    assert (refused.status_code, "admin cannot be combined with approver" in refused.text) == (
        409,
        True,
    )
    added = client.post("/api/v1/people", json=body, headers=headers)
    assert added.status_code == 201
    secret = added.json()["link"].rsplit("/", 1)[1]
    client.cookies.clear()
    joined = {"secret": secret, "name": "root", "password": PASSWORD}
    assert client.post("/api/v1/join", json=joined).status_code == 409
    assert client.post("/api/v1/join", json={**joined, "name": "new"}).status_code == 200
    assert client.get("/").status_code == 200


def test_a_new_password_ends_the_tokens_of_the_old_one(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "olu")
    wish = {"label": "ci", "scopes": ["read"], "days": 2}
    made = client.post("/api/v1/tokens", json=wish, headers=headers).json()
    bearer = {"Authorization": f"Bearer {made['secret']}"}
    client.cookies.clear()
    assert client.get("/api/v1/session", headers=bearer).status_code == 200
    people = people_of(scene.workspace)
    people.use_link(people.new_link("olu", scene.clock()), "olu", "another long one", scene.clock())
    assert client.get("/api/v1/session", headers=bearer).status_code == 401


def test_a_read_token_revokes_nothing(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "olu")
    wish = {"label": "ci", "scopes": ["read"], "days": 2}
    made = client.post("/api/v1/tokens", json=wish, headers=headers).json()
    bearer = {"Authorization": f"Bearer {made['secret']}"}
    client.cookies.clear()
    address = f"/api/v1/tokens/{made['token']['id']}"
    assert client.delete(address, headers=bearer).status_code == 403
    assert client.get("/api/v1/session", headers=bearer).status_code == 200


@pytest.mark.parametrize("number", ["²", "1" + "0" * 23, "-1", "1e3"])
def test_a_number_in_a_form_that_is_none_is_refused(
    scene: Scene, client: Client, number: str
) -> None:
    mark = scene.session(client, "eve")["X-CSRF-Token"]
    for address, field in (
        ("/tokens", "days"),
        ("/runs", "limit"),
        ("/new-review", "votes_per_pair"),
        ("/new-labels", "labels_per_item"),
    ):
        fields = {"form_mark": mark, "label": "x", "scope": "read", field: number}
        answer = client.post(address, data=fields)
        assert (address, answer.status_code) == (address, 422)


def test_conflicting_lengths_are_refused(scene: Scene, client: Client) -> None:
    headers = [("Content-Length", "2"), ("Transfer-Encoding", "chunked")]
    answer = client.request("POST", "/api/v1/session", content=b"{}", headers=headers)
    assert answer.status_code == 400
