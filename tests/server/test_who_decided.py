"""Rows in the database let nobody in, and each decision says how it was made."""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from httpx2 import Client
from tests.server.scene import ASSET, PASSWORD, Scene
from tests.server.test_attacks import ballot, tag

from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AdoptPolicy, GrantRoles
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.server.accounts.links import join, make_first_link
from gatemark.server.accounts.nouns import hash_secret, to_seconds
from gatemark.server.accounts.open_stores import people_of
from gatemark.server.accounts.stores.people import SqlPeople
from gatemark.server.accounts.stores.tables import JOIN_LINKS, PEOPLE, SESSIONS, TOKENS
from gatemark.workspace import Workspace

MOMENT = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
VOTES = f"/api/v1/assets/{ASSET}/versions/1.0.0/votes"


def write(scene: Scene, statement: sa.Executable) -> None:
    with scene.workspace.store.database.writing() as connection:
        connection.execute(statement)


def channels(scene: Scene, kind: str) -> list[Any]:
    said = [payload for _, payload in scene.workspace.events.events(kind=kind) if payload]
    return [one["decided_by"]["channel"] for one in said]  # type: ignore[index]


def test_a_row_of_a_session_lets_nobody_in(scene: Scene, client: Client) -> None:
    scene.account("root")
    later = to_seconds(scene.clock() + timedelta(hours=1))
    row = {"hash": hash_secret("mine"), "person": "root", "started_s": 0, "expires_s": later}
    write(scene, sa.insert(SESSIONS).values(row))
    client.cookies.set("gatemark", "mine")
    assert client.get("/people").status_code == 303


def test_a_session_is_not_moved_to_another_person(scene: Scene, client: Client) -> None:
    scene.account("root")
    scene.session(client, "tom")
    assert client.get("/results").status_code == 200
    write(scene, sa.update(SESSIONS).values(person="root"))
    assert client.get("/results").status_code == 303


def test_a_row_of_a_link_lets_nobody_in(scene: Scene) -> None:
    scene.account("root")
    later = to_seconds(scene.clock() + timedelta(hours=1))
    row = {"hash": hash_secret("mine"), "person": "root", "expires_s": later}
    write(scene, sa.insert(JOIN_LINKS).values(row))
    assert people_of(scene.workspace).link("mine", scene.clock()) is None


def test_a_password_is_not_moved_to_another_account(scene: Scene, client: Client) -> None:
    scene.account("tom", "root")
    people = people_of(scene.workspace)
    write(scene, sa.update(PEOPLE).where(PEOPLE.c.name == "root").values(password="x"))
    mine = sa.select(PEOPLE.c.password).where(PEOPLE.c.name == "tom").scalar_subquery()
    write(scene, sa.update(PEOPLE).where(PEOPLE.c.name == "root").values(password=mine))
    assert people.is_known("tom", PASSWORD)
    assert not people.is_known("root", PASSWORD)


def test_a_token_covers_its_person_scopes_and_expiry(scene: Scene) -> None:
    scene.account("olu", "root")
    people = people_of(scene.workspace)
    _, secret = people.new_token("olu", "bot", ["read"], 1, scene.clock())
    assert people.token_holder(secret, scene.clock())
    changes: list[dict[str, Any]] = [
        {"person": "root"},
        {"scopes": "act read run"},
        {"expires_s": to_seconds(scene.clock() + timedelta(days=300))},
    ]
    with scene.workspace.store.database.reading() as connection:
        kept = connection.execute(sa.select(TOKENS)).one()._mapping
    before = {name: kept[name] for name in ("person", "scopes", "expires_s")}
    for change in changes:
        write(scene, sa.update(TOKENS).values(**change))
        assert people.token_holder(secret, scene.clock()) is None, change
        write(scene, sa.update(TOKENS).values(**before))
    assert people.token_holder(secret, scene.clock())


def test_a_row_that_is_not_bound_to_the_key_lets_nobody_in(scene: Scene) -> None:
    scene.account("tom")
    people = people_of(scene.workspace)
    _, secret = people.new_token("tom", "bot", ["read"], 1, scene.clock())
    with scene.workspace.store.database.reading() as connection:
        stored = connection.execute(sa.select(PEOPLE.c.password)).scalar_one()
    plain = stored.split(":", 2)[2]
    unbound = hash_secret(secret.removeprefix("gm_").partition("_")[2])
    write(scene, sa.update(PEOPLE).values(password=plain))
    write(scene, sa.update(TOKENS).values(hash=unbound))
    assert not people.is_known("tom", PASSWORD)
    assert people.token_holder(secret, scene.clock()) is None


def test_another_key_lets_nobody_in_and_changes_nothing(
    scene: Scene, tmp_path: Any, monkeypatch: Any
) -> None:
    scene.account("tom")
    _, secret = people_of(scene.workspace).new_token("tom", "bot", ["read"], 1, scene.clock())
    monkeypatch.setenv("GATEMARK_SESSION_KEY", str(tmp_path / "other.key"))
    other = Workspace(store=scene.store, clock=scene.clock)
    assert isinstance(people_of(other), SqlPeople)
    assert not people_of(other).is_known("tom", PASSWORD)
    assert people_of(other).token_holder(secret, scene.clock()) is None
    assert people_of(scene.workspace).is_known("tom", PASSWORD)
    assert people_of(scene.workspace).token_holder(secret, scene.clock())
    other.store.close()


def test_every_decision_says_how_it_was_made(scene: Scene, client: Client) -> None:
    scene.to_shadow("1.0.0")
    headers = scene.session(client, "bob") | tag(client)
    assert client.post(VOTES, json=ballot(scene, "1.0.0"), headers=headers).status_code == 200
    assert channels(scene, "approval") == [{"way": "session", "authentication": "password"}]
    headers = scene.session(client, "olu")
    wish = {"label": "bot", "scopes": ["read", "act"], "days": 1}
    made = client.post("/api/v1/tokens", json=wish, headers=headers).json()
    match = tag(client)
    client.cookies.clear()
    bearer = {"Authorization": f"Bearer {made['secret']}"} | match
    body = {"to": "enabled"}
    address = f"/api/v1/assets/{ASSET}/versions/1.0.0/promotion"
    moved = client.post(address, json=body, headers=bearer)
    assert moved.status_code == 200, moved.text
    last = channels(scene, "transition")
    assert last[-1] == {"way": "token", "authentication": f"token {made['token']['id']}"}
    assert last[0]["way"] == "command_line"
    scene.session(client, "tom")
    shown = client.get(f"/assets/{ASSET}/versions/1.0.0").text
    assert "session, password" in shown
    assert f"token {made['token']['id']}" in shown
    assert "name not proven" in shown


def test_the_first_admin_came_by_the_link_and_not_by_the_command_line(tmp_path: Path) -> None:
    workspace = Workspace(store=str(tmp_path / "new"), clock=lambda: MOMENT)
    secret = make_first_link(workspace)
    assert secret is not None
    join(workspace, secret, "ada", PASSWORD)
    ((_, said),) = workspace.events.events(kind="roles_granted")
    channel = {"way": "session", "authentication": "link"}
    assert (said or {})["decided_by"]["channel"] == channel  # type: ignore[index]
    workspace.store.close()


def test_verify_counts_how_decisions_were_made(scene: Scene, client: Client) -> None:
    scene.to_shadow("1.0.0")
    headers = scene.session(client, "bob") | tag(client)
    assert client.post(VOTES, json=ballot(scene, "1.0.0"), headers=headers).status_code == 200
    report = verify(scene.workspace, VerifyRequest())
    assert report.decided_through["session"] == 1
    assert report.decided_through["command line"] > 1


def test_a_promotion_on_the_page_is_covered_by_a_checkpoint(scene: Scene, client: Client) -> None:
    scene.add("1.0.0")
    headers = scene.session(client, "ann") | tag(client)
    address = f"/api/v1/assets/{ASSET}/versions/1.0.0/promotion"
    moved = client.post(address, json={"to": "evaluating"}, headers=headers)
    (number,) = moved.json()["events"]
    assert max(size for size, _ in scene.workspace.events.checkpoints()) >= number


def test_a_link_by_the_author_spoils_the_vote_on_the_page(scene: Scene, client: Client) -> None:
    act(scene.workspace, GrantRoles(actor="root", person="ann", roles=("admin",)))
    headers = scene.session(client, "ann")
    assert client.post("/api/v1/people/bob/links", headers=headers).status_code == 201
    act(scene.workspace, GrantRoles(actor="root", person="ann", roles=("author",)))
    scene.to_shadow("1.0.0")
    headers = scene.session(client, "bob") | tag(client)
    refused = client.post(VOTES, json=ballot(scene, "1.0.0"), headers=headers)
    assert (refused.status_code, "from ann" in refused.text) == (403, True)


def test_the_one_person_mode_stands_on_every_page(scene: Scene, tmp_path: Any) -> None:
    alone = copy(scene)
    alone.store = str(tmp_path / "alone")
    alone.workspace = Workspace(store=alone.store, clock=scene.clock)
    act(alone.workspace, GrantRoles(actor="sam", person="sam", roles=("admin",)))
    act(alone.workspace, AdoptPolicy(actor="sam", policy=ReleasePolicy(one_person=True)))
    with alone.running() as client:
        assert "One-person mode" in client.get("/sign-in").text
        alone.session(client, "sam")
        for address in ("/", "/results", "/ledger", "/people", "/approvals", "/nowhere"):
            assert "One-person mode" in client.get(address).text, address
    with scene.running() as client:
        assert "One-person mode" not in client.get("/sign-in").text
    alone.workspace.store.close()
