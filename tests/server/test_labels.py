"""Labels over the interface, and the forms that do the same."""

from __future__ import annotations

import json

import pytest
from httpx2 import Client
from tests.server.review_talk import (
    API,
    LABELS,
    close,
    give,
    label_set,
    lines,
    make,
    vote_all,
)
from tests.server.scene import Scene

from gatemark.integrity import erase
from gatemark.release.review.open_stores import label_sets_of


def test_the_overview_tells_what_waits_for_whom(scene: Scene, client: Client) -> None:
    make(scene, client, 4, votes_per_pair=2)
    label_set(scene, client)
    scene.session(client, "tom")
    assert client.get("/api/v1/overview").json()["desk"] == []
    scene.session(client, "bob")
    found = client.get("/api/v1/overview").json()["desk"]
    assert [(one["kind"], one["name"], one["total"]) for one in found] == [
        ("review", "letters", 4),
        ("labels", "tone", 3),
    ]
    shown = client.get("/").text
    assert 'href="/reviews/letters"' in shown
    assert 'href="/labels/tone"' in shown
    vote_all(scene, client, "bob")
    assert [one["kind"] for one in client.get("/api/v1/overview").json()["desk"]] == ["labels"]


@pytest.mark.parametrize("way", ["", "/next", "/outcome", "/key", "/ballots"])
def test_an_unknown_review_or_label_set_is_a_problem_document(
    scene: Scene, client: Client, way: str
) -> None:
    scene.session(client, "bob")
    for place in (API, LABELS):
        if place == LABELS and way in ("/outcome", "/key", "/ballots"):
            continue
        told = client.get(f"{place}/nothing{way}")
        assert told.status_code == 404, (place, way)
        assert told.headers["content-type"] == "application/problem+json"
        assert told.json()["detail"]
    for page in ("/reviews/nothing", "/labels/nothing"):
        assert client.get(page).status_code == 404


def test_labels_count_when_an_owner_accepts_them(scene: Scene, client: Client) -> None:
    assert label_set(scene, client, labels_per_item=2).json()["items"] == 3
    assert [give(scene, client, person, "good") for person in ("ann", "bob")] == [3, 3]
    there = f"{LABELS}/tone/acceptance"
    for person in ("tom", "bob", "root"):
        headers = scene.session(client, person)
        assert client.post(there, json={}, headers=headers).status_code == 403, person
        assert client.get(f"{LABELS}/tone/dataset").status_code == 409
    headers = scene.session(client, "eve")
    done = client.post(there, json={}, headers=headers).json()
    assert (done["accepted_count"], done["in_all_count"]) == (3, 3)
    rows = [json.loads(row) for row in client.get(f"{LABELS}/tone/dataset").text.splitlines()]
    assert rows[0]["label_reviewers"] == ["ann", "bob"]
    assert (rows[0]["label_source"], rows[0]["label_accepted_by"]) == ("pilot, May", "eve")


def test_label_versions_are_told_with_source_and_reviewer_to_owners_alone(
    scene: Scene, client: Client
) -> None:
    label_set(scene, client, labels_per_item=2)
    give(scene, client, "ann", "good")
    give(scene, client, "bob", "bad")
    headers = scene.session(client, "bob")
    body = {"item": "q00", "label": "good", "note": "looked again"}
    changed = client.post(f"{LABELS}/tone/marks", json=body, headers=headers).json()
    assert changed["version"] == 2
    rows = client.get(f"{LABELS}/tone/items?limit=2").json()
    assert rows["next"] == 2
    assert {mark["reviewer"] for mark in rows["items"][0]["marks"]} == {"bob"}
    assert rows["items"][1]["waits_for"] is None
    assert len(client.get(f"{LABELS}/tone/items?after=2").json()["items"]) == 1
    headers = scene.session(client, "eve")
    row = client.get(f"{LABELS}/tone/items").json()["items"][0]
    told = [(mark["reviewer"], mark["version"], mark["label"]) for mark in row["marks"]]
    assert told == [("ann", 1, "good"), ("bob", 1, "bad"), ("bob", 2, "good")]
    assert (row["source"], row["proposal"]) == ("pilot, May", "good")
    chosen = {"chosen": {"q01": "bad"}}
    done = client.post(f"{LABELS}/tone/acceptance", json=chosen, headers=headers).json()
    assert (done["accepted_count"], list(done["open"])) == (2, ["q02"])


def test_a_viewer_labels_nothing_and_bad_labels_are_refused(scene: Scene, client: Client) -> None:
    label_set(scene, client)
    headers = scene.session(client, "tom")
    assert client.get(f"{LABELS}/tone/next").status_code == 403
    body = {"item": "q00", "label": "good"}
    assert client.post(f"{LABELS}/tone/marks", json=body, headers=headers).status_code == 403
    headers = scene.session(client, "bob")
    for change, status in (({"label": "fine"}, 422), ({"item": "q99"}, 404)):
        told = client.post(f"{LABELS}/tone/marks", json=body | change, headers=headers)
        assert told.status_code == status
    assert label_set(scene, client).status_code == 409, "there is one already"
    assert label_set(scene, client, name="two", labels=["x"]).status_code == 422


def test_the_forms_do_what_the_interface_does(scene: Scene, client: Client) -> None:
    scene.session(client, "eve")
    fields = {
        "form_mark": scene.mark(client),
        "name": "letters",
        "samples:candidate": lines("New", 1),
        "samples:baseline": lines("Old", 1),
        "peeking": "yes",
    }
    assert client.post("/new-review", data=fields).status_code == 303
    assert (
        client.post("/new-review", data=fields | {"name": "b", "votes_per_pair": "x"}).status_code
        == 422
    )
    scene.session(client, "bob")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    ballot = {"form_mark": scene.mark(client), "token": token}
    there = "/reviews/letters"
    assert client.post(there, data=ballot | {"answered": "c"}).status_code == 422
    unsaid = client.post(there, data=ballot | {"answered": "skip"})
    assert (unsaid.status_code, "needs a reason" in unsaid.text) == (422, True)
    assert client.post(there, data=ballot | {"answered": "b"}).status_code == 303
    scene.session(client, "ann")
    looked = client.post(f"{there}/look", data={"form_mark": scene.mark(client)})
    assert (looked.status_code, "1 decisive pairs" in looked.text) == (200, True)
    for person, status in (("bob", 403), ("eve", 303)):
        scene.session(client, person)
        ended = client.post(f"{there}/close", data={"form_mark": scene.mark(client)})
        assert ended.status_code == status
    assert "INCONCLUSIVE" in client.get(there).text
    labels = {"form_mark": scene.mark(client), "name": "tone", "labels": "good\nbad", "source": "x"}
    samples = {"samples": lines("Said", 1)}
    assert client.post("/new-labels", data=labels | samples).status_code == 303
    scene.session(client, "bob")
    given = {"form_mark": scene.mark(client), "item": "q00", "label": "good"}
    assert client.post("/labels/tone", data=given).status_code == 303
    scene.session(client, "eve")
    done = client.post("/labels/tone/items", data={"form_mark": scene.mark(client)})
    assert done.headers["location"].endswith("done=accepted")
    assert client.get("/labels/tone/dataset").json()["label"] == "good"


def test_an_owner_alone_accepts_nothing_and_is_told_why(scene: Scene, client: Client) -> None:
    label_set(scene, client)
    give(scene, client, "eve", "good")
    told = client.post("/labels/tone/items", data={"form_mark": scene.mark(client)})
    assert "Nothing was accepted" in told.text
    assert "only eve gave this label" in told.text
    assert label_sets_of(scene.workspace).accepted("tone") == {}


def test_reviews_come_page_by_page_without_gaps(scene: Scene, client: Client) -> None:
    for number in range(5):
        assert make(scene, client, 1, name=f"r{number}").status_code == 201
        label_set(scene, client, name=f"s{number}")
    for place, field, letter in ((API, "review", "r"), (LABELS, "labels", "s")):
        seen, cursor = [], ""
        while cursor is not None:
            found = client.get(f"{place}?limit=2{cursor and f'&after={cursor}'}").json()
            seen += [one[field] for one in found["items"]]
            cursor = found["next"]
        assert sorted(seen) == [f"{letter}{number}" for number in range(5)]
        assert client.get(f"{place}?after=nothing").status_code == 404


def test_reviews_and_labels_live_in_postgresql_too(postgres_url: str) -> None:
    scene = Scene(postgres_url)
    with scene.running() as client:
        assert make(scene, client, 2).status_code == 201
        assert len(vote_all(scene, client, "bob")) == 2
        assert close(scene, client).json()["verdict"] == "inconclusive"
        assert client.get("/reviews/letters").status_code == 200
        assert label_set(scene, client).status_code == 201
        assert give(scene, client, "bob", "good") == 3
        headers = scene.session(client, "eve")
        done = client.post(f"{LABELS}/tone/acceptance", json={}, headers=headers).json()
        assert done["accepted_count"] == 3
        assert "accepted by eve" in client.get("/labels/tone/items").text
        assert client.get("/").status_code == 200
    scene.workspace.store.close()


def test_erased_samples_pairs_and_results_are_shown_as_such(scene: Scene, client: Client) -> None:
    label_set(scene, client)
    make(scene, client, 4)
    vote_all(scene, client, "ann")
    vote_all(scene, client, "bob")
    done = close(scene, client).json()
    result_id = done["candidates"][0]["result_id"]
    for what in ("item:tone/q01", "pair:letters/2", f"result:{result_id}"):
        erase(scene.workspace, what, "request 4711")
    scene.session(client, "eve")
    told = "erased by"
    page = client.get("/labels/tone/items").text
    assert "This sample was erased by" in page
    assert client.get(f"{LABELS}/tone/items").json()["items"][1]["erased"].startswith(told)
    assert "request 4711" in client.get(f"/results/{result_id}").text
    assert "pair 2 (item q01) was erased by" in client.get("/reviews/letters").text
