"""Two people on PostgreSQL: each attack of the list is tried, and none gets through."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from httpx2 import Client, Response
from tests.ledger.frozen import flipped
from tests.server.scene import ASSET, Scene
from tests.server.test_attacks import ballot, tag

from gatemark.core.canonical import digest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AddVersion, GrantRoles, SetRequiredPack
from gatemark.server.accounts.nouns import hash_secret, to_seconds
from gatemark.server.accounts.stores.tables import SESSIONS
from gatemark.targets.isolation import get_landlock_version

Run = Callable[..., Any]
TWO_PEOPLE = {
    "root": ("admin",),
    "ann": ("author", "evaluator", "pack_owner", "operator"),
    "bob": ("approver",),
}
VERSIONS = f"/api/v1/assets/{ASSET}/versions/1.0.0"
PACK = """
gatemark: 1
name: sly
version: 1
asset: {kind: prompt, name: sly}
score_min: 0.5
regression_max: 0.5
suites: [{id: golden, kind: golden, weight: 1, dataset: golden.jsonl, scorer: exact}]
targets:
  candidate: {python: "app:answer", isolate: true}
  baseline: none
"""
SLY = """
import os, pathlib
HERE = pathlib.Path(__file__).parent
def address():
    if "GATEMARK_STORE" in os.environ:
        return os.environ["GATEMARK_STORE"]
    held = pathlib.Path(f"/proc/{os.getppid()}/environ").read_text().split("\\0")
    return dict(one.split("=", 1) for one in held if "=" in one)["GATEMARK_STORE"]
def answer(text):
    got = []
    for name, attack in {
        "address": address,
        "key": (HERE / "session.key").read_bytes,
        "pack": lambda: (HERE / "pack.yaml").write_text("x"),
    }.items():
        try:
            attack()
            got.append(name)
        except (OSError, KeyError):
            pass
    return " ".join(got) or "nothing"
"""


@pytest.fixture
def scene(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr("tests.server.scene.PEOPLE", TWO_PEOPLE)
    monkeypatch.setenv("GATEMARK_SESSION_KEY", str(tmp_path / "session.key"))
    monkeypatch.setenv("GATEMARK_STORE", postgres_url)
    made = Scene(postgres_url)
    yield made
    made.workspace.store.close()


def to_shadow(scene: Scene) -> None:
    added = {"kind": "prompt", "digest": digest("1.0.0")}
    act(scene.workspace, AddVersion(actor="ann", asset=ASSET, version="1.0.0", **added))
    act(scene.workspace, SetRequiredPack(actor="ann", asset=ASSET, required_pack=scene.exam()))
    scene.promote("1.0.0", "evaluating", actor="ann")
    scene.promote("1.0.0", "eligible", scene.seal("1.0.0"), actor="ann")
    scene.promote("1.0.0", "shadow", actor="ann")


def vote(scene: Scene, client: Client, name: str) -> Response:
    headers = scene.session(client, name) | tag(client)
    return client.post(f"{VERSIONS}/votes", json=ballot(scene, "1.0.0"), headers=headers)


def promote(scene: Scene, client: Client) -> Response:
    headers = scene.session(client, "ann") | tag(client)
    return client.post(f"{VERSIONS}/promotion", json={"to": "enabled"}, headers=headers)


def roles(scene: Scene, person: str, *names: Any) -> None:
    act(scene.workspace, GrantRoles(actor="root", person=person, roles=names))


def nobody_votes_for_themselves(scene: Scene, client: Client) -> None:
    """Neither the author, also as an approver, nor the admin, nor whom the author let in."""
    for name in ("ann", "root"):
        assert vote(scene, client, name).status_code == 403, name
    roles(scene, "ann", *TWO_PEOPLE["ann"], "approver")
    assert vote(scene, client, "ann").status_code == 403
    roles(scene, "ann", "admin")
    headers = scene.session(client, "ann")
    assert client.post("/api/v1/people/bob/links", headers=headers).status_code == 201
    roles(scene, "ann", *TWO_PEOPLE["ann"])
    refused = vote(scene, client, "bob")
    assert (refused.status_code, "from ann" in refused.text) == (403, True)
    assert promote(scene, client).status_code == 409


def a_row_lets_nobody_in(scene: Scene, client: Client) -> None:
    later = to_seconds(scene.clock() + timedelta(hours=1))
    row = {"hash": hash_secret("mine"), "person": "root", "started_s": 0, "expires_s": later}
    with scene.workspace.store.database.writing() as connection:
        connection.execute(sa.insert(SESSIONS).values(row))
    client.cookies.clear()
    client.cookies.set("gatemark", "mine")
    assert client.get("/people").status_code == 303
    assert client.get("/api/v1/people").status_code == 401


def a_read_token_revokes_nothing(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "ann")
    wish = {"label": "ci", "scopes": ["read"], "days": 2}
    made = client.post("/api/v1/tokens", json=wish, headers=headers).json()
    bearer = {"Authorization": f"Bearer {made['secret']}"}
    client.cookies.clear()
    address = f"/api/v1/tokens/{made['token']['id']}"
    assert client.delete(address, headers=bearer).status_code == 403
    assert client.get("/api/v1/session", headers=bearer).status_code == 200


def a_target_gets_nothing(gatemark: Run, folder: Path) -> None:
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text(SLY)
    rows = [{"id": f"r{n}", "input": "x", "target": "nothing"} for n in range(40)]
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = gatemark("run", folder / "pack.yaml", "--json")
    scores = [m["value"] for m in ran.json["measurements"] if m["name"] == "score"]
    assert (ran.code, scores) == (0, [1.0]), ran.err or ran.out
    assert (folder / "pack.yaml").read_text() == PACK


def flip_a_byte(address: str) -> None:
    """As an administrator of the database can: its guards are off for this connection."""
    with psycopg.connect(address) as connection:
        connection.execute("SET session_replication_role = replica")
        found = connection.execute("SELECT seq, data FROM payloads ORDER BY seq").fetchall()
        seq, data = found[len(found) // 2]
        connection.execute("UPDATE payloads SET data = %s WHERE seq = %s", (flipped(data), seq))


@pytest.mark.skipif(get_landlock_version() == 0, reason="this kernel has no Landlock")
def test_two_people_on_postgresql_resist_the_listed_attacks(
    scene: Scene, gatemark: Run, tmp_path: Path
) -> None:
    with scene.running() as client:
        to_shadow(scene)
        nobody_votes_for_themselves(scene, client)
        a_row_lets_nobody_in(scene, client)
        a_read_token_revokes_nothing(scene, client)
        a_target_gets_nothing(gatemark, tmp_path)
        # What bob got from the author is old enough after the policy's time, and his vote counts.
        scene.clock.now += timedelta(hours=73)
        assert vote(scene, client, "bob").status_code == 200
        moved = promote(scene, client)
        assert moved.status_code == 200, moved.text
    assert gatemark("ledger", "verify").code == 0
    flip_a_byte(scene.store)
    assert gatemark("ledger", "verify").code == 4
