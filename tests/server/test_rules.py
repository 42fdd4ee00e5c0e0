from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Client
from tests.server.scene import ASSET, Scene, new_scene

import gatemark.packs.starter
from gatemark.ledger.keys import make_key
from gatemark.release.lifecycle.state_cache import read_state

API = "/api/v1"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[Scene, Client]]:
    """A server with packs and a key."""
    packs = tmp_path / "packs"
    shutil.copytree(Path(gatemark.packs.starter.__file__).parent, packs)
    key = tmp_path / "ledger.key"
    scene = new_scene(tmp_path, packs=(str(packs),), signing_key=str(key))
    make_key(scene.workspace, key)
    with scene.running() as client:
        yield scene, client
    scene.workspace.store.close()


def tag_of(client: Client, path: str) -> dict[str, str]:
    return {"If-Match": client.get(API + path).headers["etag"]}


def test_a_pack_owner_sets_the_required_pack_and_nobody_else(shop: tuple[Scene, Client]) -> None:
    scene, client = shop
    scene.add("1.0.0")
    address, body = f"{API}/assets/{ASSET}/required-pack", {"pack": "pack.yaml"}
    headers = scene.session(client, "olu")
    tag = tag_of(client, f"/assets/{ASSET}")
    assert client.post(address, json=body, headers=headers).status_code == 428
    assert client.post(address, json=body, headers=headers | tag).status_code == 403
    headers = scene.session(client, "eve")
    other = {"pack": "../packs/pack.yaml"}
    assert client.post(address, json=other, headers=headers | tag).status_code == 404
    done = client.post(address, json=body, headers=headers | tag)
    assert (done.status_code, done.json()["changed"]) == (200, True)
    exam = read_state(scene.workspace, ASSET).asset.required_pack
    assert exam is not None
    assert exam.pack == "parcel-mail"
    assert client.post(address, json=body, headers=headers | tag).status_code == 412
    shown = client.get(f"/assets/{ASSET}").text
    assert "Set the required pack" in shown
    scene.session(client, "olu")
    assert "Set the required pack" not in client.get(f"/assets/{ASSET}").text


def test_the_form_of_the_page_sets_the_required_pack_too(shop: tuple[Scene, Client]) -> None:
    scene, client = shop
    scene.add("1.0.0")
    scene.session(client, "eve")
    tag = client.get(f"{API}/assets/{ASSET}").headers["etag"]
    fields = {"form_mark": scene.mark(client), "tag": tag, "pack": "pack.yaml"}
    assert client.post(f"/assets/{ASSET}/required-pack/set", data=fields).status_code == 303
    assert client.post(f"/assets/{ASSET}/required-pack/set", data=fields).status_code == 412


def test_an_admin_in_person_adopts_a_policy_that_they_looked_at(
    scene: Scene, client: Client
) -> None:
    address = f"{API}/policy"
    headers = scene.session(client, "bob")
    found = client.get(address)
    policy = found.json()["policy"]
    policy["canary"]["clean_windows"] = 5
    body = {"policy": policy, "note": "slower canaries"}
    tag = {"If-Match": found.headers["etag"]}
    assert client.post(address, json=body, headers=headers | tag).status_code == 403
    headers = scene.session(client, "root")
    assert client.post(address, json=body, headers=headers).status_code == 428
    assert client.post(address, json=body, headers=headers | {"If-Match": '"1"'}).status_code == 412
    assert client.post(address, json=body, headers=headers | {"If-Match": "x"}).status_code == 412
    done = client.post(address, json=body, headers=headers | tag)
    assert (done.status_code, done.json()["changed"]) == (200, True)
    assert client.get(address).json()["policy"]["canary"]["clean_windows"] == 5
    assert client.post(address, json=body, headers=headers | tag).status_code == 412
    fresh = {"If-Match": done.headers["etag"]}
    again = client.post(address, json=body, headers=headers | fresh)
    assert (again.status_code, again.json()["changed"]) == (200, False)
    wish = {"label": "ci", "scopes": ["act"], "days": 1}
    secret = client.post(f"{API}/tokens", json=wish, headers=headers).json()["secret"]
    bearer = {"Authorization": f"Bearer {secret}"}
    assert client.post(address, json=body, headers=bearer | fresh).status_code == 403


@pytest.mark.parametrize(
    "policy",
    [
        "{}",
        '{"gatemark_release": 2}',
        '{"gatemark_release": 1, "colour": "red"}',
        '{"gatemark_release": 1, "canary": {"clean_windows": NaN}}',
        '{"gatemark_release": 1, "watch_share": NaN}',
        '{"gatemark_release": 1, "watch_share": 1e999}',
        '{"gatemark_release": 1, "canary": {"clean_windows": 1%s}}' % ("0" * 400),
        '{"gatemark_release": 1, "gates": []}',
    ],
)
def test_a_policy_that_is_none_is_refused_with_words(
    scene: Scene, client: Client, policy: str
) -> None:
    headers = scene.session(client, "root") | tag_of(client, "/policy")
    headers["Content-Type"] = "application/json"
    body = f'{{"policy": {policy}}}'
    refused = client.post(f"{API}/policy", content=body, headers=headers)
    assert refused.status_code == 422, refused.text


def window_records(start: Any) -> list[dict[str, Any]]:
    span = {
        "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{start + timedelta(minutes=15):%Y-%m-%dT%H:%M:%SZ}",
    }
    metrics = {"error_rate": {"n": 1000, "count": 10}, "latency_ms": {"values": [90.0, 110.0]}}
    return [
        {**span, "arm": arm, "keys": 1000, "metrics": metrics} for arm in ("canary", "baseline")
    ]


def test_canary_windows_are_handed_in_whole_or_not_at_all(scene: Scene, client: Client) -> None:
    scene.enable("1.0.0")
    scene.clock.now += timedelta(hours=26)
    headers = scene.session(client, "olu")
    due = f"{API}/assets/{ASSET}/canary/due"
    assert client.post(due, json={}, headers=headers).json()["changed"] is True
    scene.canary("1.1.0", "1.0.0")
    start = (scene.clock.now + timedelta(hours=1)).replace(minute=0)
    scene.clock.now = start + timedelta(minutes=15)
    address = f"{API}/assets/{ASSET}/canary/windows"
    good = window_records(start)
    bad = {"windows": [*good, {**good[0], "arm": "third"}]}
    refused = client.post(address, json=bad, headers=headers)
    assert (refused.status_code, "body:3" in refused.text) == (422, True), refused.text
    assert tempfile.gettempdir() not in refused.text
    done = client.post(address, json={"windows": good}, headers=headers)
    assert done.status_code == 200, done.text
    assert done.json()["changed"] is True
    again = client.post(address, json={"windows": good}, headers=headers)
    assert (again.status_code, again.json()["changed"]) == (200, False)
    headers = scene.session(client, "tom")
    assert client.post(address, json={"windows": good}, headers=headers).status_code == 403
    assert client.post(due, json={}, headers=headers).status_code == 403
    nowhere = f"{API}/assets/nobody/canary/windows"
    assert client.post(nowhere, json={"windows": good}, headers=headers).status_code == 404


def test_numbers_that_are_none_do_not_get_in(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "olu") | {"Content-Type": "application/json"}
    for text in ("NaN", "Infinity", "1e999"):
        body = f'{{"points": [{{"asset": "a", "metric": "m", "value": {text}}}]}}'
        refused = client.post(f"{API}/drift/points", content=body, headers=headers)
        assert refused.status_code == 422, refused.text


def test_points_and_service_reports_are_handed_in(scene: Scene, client: Client) -> None:
    scene.enable("1.0.0")
    headers = scene.session(client, "olu")
    day = (scene.clock.now - timedelta(days=2)).replace(hour=0, minute=0)
    point = {
        "schema": "gatemark.point/1",
        "asset": ASSET,
        "metric": "golden_accuracy",
        "start": f"{day:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{day + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
        "source": "shop",
        "n": 1000,
        "k": 930,
    }
    done = client.post(f"{API}/drift/points", json={"points": [point]}, headers=headers)
    assert (done.status_code, done.json()["added"]) == (200, 1), done.text
    assert client.get(f"{API}/assets/{ASSET}/drift").status_code == 200
    span = {"start": point["start"], "end": point["end"], "good": 99, "total": 100}
    address = f"{API}/assets/{ASSET}/service-reports"
    assert client.post(address, json=span, headers=headers).json()["changed"] is True
    assert client.post(address, json=span, headers=headers).json()["changed"] is False
    wrong = span | {"start": "2027-13-01T00:00:00Z"}
    assert client.post(address, json=wrong, headers=headers).status_code == 422
    closing = f"{API}/drift/episodes/{'ab' * 8}/closing"
    assert client.post(closing, json={"reason": "x"}, headers=headers).status_code == 422
    headers = scene.session(client, "tom")
    assert client.post(f"{API}/drift/points", json={"points": [point]}, headers=headers).is_error
    assert client.post(closing, json={"reason": "x"}, headers=headers).status_code == 403
    assert json.loads(client.get(f"{API}/drift-policy").text)["policy_digest"].startswith("sha256:")


def test_checkpoints_are_signed_by_admins_with_the_key_of_the_server(
    shop: tuple[Scene, Client],
) -> None:
    scene, client = shop
    address = f"{API}/ledger/checkpoints"
    headers = scene.session(client, "tom")
    assert client.get(address).json() == []
    assert client.post(address, headers=headers).status_code == 403
    assert "Sign a checkpoint" not in client.get("/ledger").text
    headers = scene.session(client, "root")
    made = client.post(address, headers=headers)
    assert made.status_code == 201, made.text
    assert client.get(address).json() == [made.json()]
    assert "Sign a checkpoint" in client.get("/ledger").text
    fields = {"form_mark": scene.mark(client)}
    assert client.post("/ledger/checkpoints", data=fields).status_code == 303
    assert len(client.get(address).json()) == 2
    events = [(event.kind, event.actor) for event, _ in scene.workspace.events.events()]
    assert events.count(("checkpoint_asked", "root")) == 2
    checked = client.post(f"{API}/ledger/verification", headers=headers).json()
    assert (checked["verdict"], checked["checkpoints"]) == ("pass", 2)


def test_a_server_without_a_key_signs_nothing(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "root")
    refused = client.post(f"{API}/ledger/checkpoints", headers=headers)
    assert (refused.status_code, "--signing-key" in refused.text) == (409, True)
