"""Attributions as pages and over the interface: who may judge what follows from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from httpx2 import Client
from tests.server.failures import EXPECTED, add_failure
from tests.server.scene import ASSET, Scene

from gatemark.integrity import verify
from gatemark.ledger.event import EventDraft
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.attribution.events import ATTRIBUTION_REVIEWED, ATTRIBUTION_SEALED


def said(scene: Scene) -> list[tuple[str, object]]:
    events = scene.workspace.events.events(kind=ATTRIBUTION_REVIEWED)
    return [(event.actor, (payload or {})["verdicts"]) for event, payload in events]


def judged(client: Client, scene: Scene, name: str, **verdicts: str) -> int:
    said = {f"verdicts:{kind}": verdict for kind, verdict in verdicts.items()}
    form = {"form_mark": scene.mark(client), "note": "seen it", **said}
    return client.post(f"/attributions/{name}", data=form).status_code


def test_an_attribution_is_listed_and_shown_with_its_plan_drawn(
    scene: Scene, client: Client, tmp_path: Path
) -> None:
    scene.session(client, "tom")
    assert "There are no attributions yet" in client.get("/attributions").text
    name = add_failure(scene, tmp_path)
    listed = client.get("/attributions").text
    assert f'href="/attributions/{name.replace(":", "%3A")}"' in listed
    assert "parcel-17" in listed
    shown = client.get(f"/attributions/{name}").text
    assert "CAUSE FOUND" in shown
    assert '<svg class="plan"' in shown
    assert "Which step caused it" in shown
    assert "waits for a pack owner" in shown
    assert 'type="radio"' not in shown
    assert client.get("/attributions/sha256:00000000").status_code == 404


def test_a_pack_owner_accepts_on_the_page_and_the_items_become_rows(
    scene: Scene, client: Client, tmp_path: Path
) -> None:
    name = add_failure(scene, tmp_path)
    scene.session(client, "eve")
    overview = client.get("/").text
    assert "the proposals about decision parcel-17" in overview
    assert client.get(f"/attributions/{name}/items").status_code == 409
    assert judged(client, scene, name) == 422
    done = judged(client, scene, name, golden_item="accepted", rule_gap="rejected")
    assert done == 303
    assert said(scene) == [("eve", {"golden_item": "accepted", "rule_gap": "rejected"})]
    shown = client.get(f"/attributions/{name}").text
    assert "accepted by eve: seen it" in shown
    rows = client.get(f"/attributions/{name}/items")
    assert "attachment" in rows.headers["content-disposition"]
    assert json.loads(rows.text)["target"] == EXPECTED
    assert judged(client, scene, name, golden_item="rejected") == 409
    assert len(said(scene)) == 1
    assert verify(scene.workspace, VerifyRequest()).issues == ()


@pytest.mark.parametrize(
    ("person", "kind", "status"),
    [
        ("tom", "golden_item", 403),
        ("olu", "golden_item", 403),
        ("olu", "routing_note", 200),
        ("eve", "golden_item", 200),
        ("eve", "adversarial_item", 422),
        ("zoe", "golden_item", 403),
    ],
)
def test_the_interface_lets_those_judge_who_may(
    scene: Scene, client: Client, tmp_path: Path, *, person: str, kind: str, status: int
) -> None:
    name = add_failure(scene, tmp_path)
    headers = scene.session(client, person)
    body = {"verdicts": {kind: "accepted"}}
    asked = client.post(f"/api/v1/attributions/{name}/verdicts", json=body, headers=headers)
    assert asked.status_code == status, asked.text
    assert said(scene) == ([(person, {kind: "accepted"})] if status == 200 else [])


def test_who_judged_the_decision_judges_nothing_that_follows(
    scene: Scene, client: Client, tmp_path: Path
) -> None:
    name = add_failure(scene, tmp_path, reviewer="eve")
    headers = scene.session(client, "eve")
    card = client.get(f"/api/v1/attributions/{name}").json()
    assert card["may_judge"] == []
    assert "you judged the decision" in card["why_not"]
    assert "the proposals about" not in client.get("/").text
    assert "another person must judge" in client.get(f"/attributions/{name}").text
    body = {"verdicts": {"golden_item": "accepted"}}
    asked = client.post(f"/api/v1/attributions/{name}/verdicts", json=body, headers=headers)
    assert asked.status_code == 403


def test_no_token_judges_and_no_form_of_another_session(
    scene: Scene, client: Client, tmp_path: Path
) -> None:
    name = add_failure(scene, tmp_path)
    headers = scene.session(client, "eve")
    made = {"label": "robot", "scopes": ["read", "act"], "days": 1}
    secret = client.post("/api/v1/tokens", json=made, headers=headers).json()["secret"]
    body = {"verdicts": {"golden_item": "accepted"}}
    bearer = {"Authorization": f"Bearer {secret}"}
    place = f"/api/v1/attributions/{name}/verdicts"
    assert client.post(place, json=body, headers=bearer).status_code == 403
    assert client.get(f"/api/v1/attributions/{name}", headers=bearer).status_code == 200
    form = {"form_mark": "of another session", "verdicts:golden_item": "accepted"}
    assert client.post(f"/attributions/{name}", data=form).status_code == 403
    assert said(scene) == []


def test_the_list_goes_on_from_page_to_page(scene: Scene, client: Client, tmp_path: Path) -> None:
    names = [add_failure(scene, tmp_path, id=f"parcel-{number}") for number in range(3)]
    # Sealed again, nothing is written.
    add_failure(scene, tmp_path, id="parcel-0")
    scene.session(client, "tom")
    found, address = [], "/api/v1/attributions?limit=2"
    while address:
        answer = client.get(address).json()
        found += [line["attribution"] for line in answer["items"]]
        address = answer["next"] and f"/api/v1/attributions?limit=2&before={answer['next']}"
    assert found == [names[2], names[1], names[0]]
    line = client.get("/api/v1/attributions").json()["items"][0]
    assert (line["asset"], line["cause"], line["waiting"]) == (ASSET, "answer", line["proposed"])


def test_what_a_decision_says_is_text_and_nothing_else(
    scene: Scene, client: Client, tmp_path: Path
) -> None:
    trick = "<script>alert(1)</script>"
    name = add_failure(scene, tmp_path, id=trick, input=trick)
    scene.session(client, "eve")
    for address in ("/", "/attributions", f"/attributions/{name}"):
        shown = client.get(address).text
        assert trick not in shown
        assert "&lt;script&gt;alert(1)" in shown


def test_an_attribution_of_an_earlier_build_is_listed_too(
    scene: Scene, client: Client, tmp_path: Path
) -> None:
    name = add_failure(scene, tmp_path)
    (told,) = [payload for _, payload in scene.workspace.events.events(kind=ATTRIBUTION_SEALED)]
    assert told is not None
    older = {key: told[key] for key in ("attribution", "cause", "blobs")}
    draft = EventDraft(ATTRIBUTION_SEALED, scene.clock(), "eve", ASSET, older)
    scene.workspace.events.append([draft])
    scene.session(client, "eve")
    assert client.get("/").status_code == 200
    (line,) = client.get("/api/v1/attributions").json()["items"]
    assert (line["attribution"], line["decision"], line["waiting"]) == (name, "not named", 0)
    assert "parcel-17" in client.get(f"/attributions/{name}").text
