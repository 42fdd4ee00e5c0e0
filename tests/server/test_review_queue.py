"""The page of inputs that wait for people, by lane."""

from __future__ import annotations

import json

from httpx2 import Client
from tests.server.review_talk import LABELS
from tests.server.scene import Scene


def sample(name: str, lane: str) -> dict[str, object]:
    told = {"input_class": lane, "payload": {"message": f"about {name}"}}
    head = {"schema": "gatemark.sample/1", "id": name, "epoch": 1, "input": told}
    return {**head, "target": None, "output": None, "scores": {}}


def create(scene: Scene, client: Client, per_item: int = 1) -> None:
    samples = [sample("n1", "cron_n8n_event"), sample("n2", "cron_n8n_event")]
    samples.append(sample("k1", "kanban_hygiene"))
    fields = {"name": "doubts", "labels": ["escalate/high", "suppress/info"], "source": "dry run"}
    body = {
        **fields,
        "field": "target",
        "labels_per_item": per_item,
        "samples": "".join(json.dumps(one) + "\n" for one in samples),
    }
    made = client.post(LABELS, json=body, headers=scene.session(client, "eve"))
    assert made.status_code == 201, made.text


def rows(client: Client) -> str:
    found = client.get("/review-queue")
    assert found.status_code == 200
    return found.text


def test_open_inputs_are_listed_by_lane_until_they_are_accepted(
    scene: Scene, client: Client
) -> None:
    scene.session(client, "bob")
    assert "Nothing waits" in rows(client)
    create(scene, client)
    scene.session(client, "bob")
    page = rows(client)
    assert page.index("cron_n8n_event") < page.index("kanban_hygiene")
    assert page.count("waits for a label") == 3
    told = client.get("/api/v1/review-queue?limit=1").json()
    assert (list(told["lanes"]), told["more"]) == (["cron_n8n_event"], 2)
    # The page names inputs; what is in them is shown to whoever labels them.
    assert "about n1" not in page
    headers = scene.session(client, "bob")
    given = client.post(
        f"{LABELS}/doubts/marks",
        json={"item": "n1", "label": "escalate/high"},
        headers=headers,
    )
    assert given.status_code in (200, 201), given.text
    assert "you labelled it" in rows(client)
    headers = scene.session(client, "eve")
    assert "escalate/high, waits for a pack_owner" in rows(client)
    accepted = client.post(f"{LABELS}/doubts/acceptance", json={}, headers=headers)
    assert accepted.status_code in (200, 201), accepted.text
    assert '<th scope="row">n1<' not in rows(client)
    assert '<th scope="row">n2<' in rows(client)


def test_nobody_but_an_owner_learns_what_others_said(scene: Scene, client: Client) -> None:
    create(scene, client, per_item=2)
    for person, word in (("bob", "escalate/high"), ("ann", "suppress/info")):
        headers = scene.session(client, person)
        body = {"item": "k1", "label": word}
        client.post(f"{LABELS}/doubts/marks", json=body, headers=headers)
    scene.session(client, "olu")
    page = rows(client)
    assert "escalate/high" not in page
    assert "no majority" not in page
    scene.session(client, "eve")
    assert "no majority: escalate/high and suppress/info" in rows(client)
