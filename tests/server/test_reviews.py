"""Blind review over the interface, from making it to its outcome."""

from __future__ import annotations

import pytest
from httpx2 import Client
from tests.server.review_talk import (
    API,
    close,
    make,
    vote_all,
)
from tests.server.scene import ASSET, Scene

from gatemark.core.canonical import digest


def test_two_reviewers_come_to_a_verdict_that_the_ledger_tells_of(
    scene: Scene, client: Client
) -> None:
    made = make(scene, client, votes_per_pair=2)
    assert (made.status_code, made.json()["pair_count"]) == (201, 20)
    for person in ("ann", "bob"):
        scene.session(client, person)
        mine = client.get(API).json()["items"][0]["mine"]
        assert (mine["waits"], mine["answered"], mine["total"]) == (True, 0, 20)
        assert len(vote_all(scene, client, person)) == 20
        mine = client.get(f"{API}/letters").json()["line"]["mine"]
        assert (mine["waits"], mine["answered"], mine["total"]) == (False, 20, 20)
    outcome = close(scene, client).json()
    assert outcome["verdict"] == "pass"
    assert outcome["candidates"][0]["numbers"]["wins"] == 20
    (couple,) = outcome["pairs_agreement"]
    assert (couple["reviewers"], couple["n"]) == (["ann", "bob"], 20)
    assert couple["verdict"] == "inconclusive", "kappa says nothing where all votes are the same"
    scene.session(client, "tom")
    assert client.get(f"{API}/letters/outcome").json() == outcome
    events = client.get("/api/v1/ledger/events?subject=review:letters").json()["items"]
    assert [(one["kind"], one["actor"]) for one in events] == [
        ("review_unblinded", "eve"),
        *[("review_vote_cast", "bob")] * 20,
        *[("review_vote_cast", "ann")] * 20,
        ("review_created", "eve"),
    ]
    assert len(client.get(f"{API}/letters/ballots").text.splitlines()) == 40
    key = client.get(f"{API}/letters/key").json()
    assert (key["key"], key["commitment"]) == (outcome["key"], made.json()["commitment"])


def test_saying_it_twice_is_saying_it_once_and_a_change_is_a_version(
    scene: Scene, client: Client
) -> None:
    make(scene, client)
    headers = scene.session(client, "bob")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    assert client.get(f"{API}/letters/next").json()["pair"]["token"] == token
    vote = {"token": token, "answered": "a", "reason": "shorter"}
    there = f"{API}/letters/votes"
    versions = [client.post(there, json=vote, headers=headers).json()["version"] for _ in range(2)]
    keyed = headers | {"Idempotency-Key": "v"}
    versions += [client.post(there, json=vote, headers=keyed).json()["version"] for _ in range(2)]
    changed = client.post(there, json=vote | {"answered": "both_bad"}, headers=headers)
    assert (versions, changed.json()["version"]) == ([1, 1, 1, 1], 2)
    again = client.get(f"{API}/letters/pairs/{token}").json()
    assert (again["answered"], again["reason"]) == ("both_bad", "shorter")


def test_a_skip_needs_a_reason(scene: Scene, client: Client) -> None:
    make(scene, client)
    headers = scene.session(client, "bob")
    token = client.get(f"{API}/letters/next").json()["pair"]["token"]
    for reason, status in (("", 422), ("  ", 422), ("\u200b", 422), ("not my field", 200)):
        body = {"token": token, "answered": "skip", "reason": reason}
        assert client.post(f"{API}/letters/votes", json=body, headers=headers).status_code == status


def test_numbers_are_shown_where_peeking_is_allowed_and_to_nobody_who_votes(
    scene: Scene, client: Client
) -> None:
    make(scene, client)
    headers = scene.session(client, "ann")
    hidden = client.post(f"{API}/letters/looks", headers=headers)
    assert (hidden.status_code, "hidden until" in hidden.text) == (403, True)
    make(scene, client, 4, name="open", peeking=True)
    vote_all(scene, client, "bob", review="open")
    headers = scene.session(client, "bob")
    assert client.post(f"{API}/open/looks", headers=headers).status_code == 403
    headers = scene.session(client, "ann")
    seen = client.post(f"{API}/open/looks", headers=headers).json()
    assert seen["numbers"]["new"]["wins"] == 4
    assert client.get(f"{API}/open/next").status_code == 403, "who looked is not blind any more"


@pytest.mark.parametrize(("person", "status"), [("bob", 403), ("tom", 403), ("eve", 200)])
def test_a_review_is_closed_by_those_who_may(
    scene: Scene, client: Client, person: str, status: int
) -> None:
    make(scene, client, 4)
    assert close(scene, client).status_code == 409, "votes are missing"
    vote_all(scene, client, "ann")
    assert close(scene, client, person).status_code == status
    headers = scene.session(client, "bob")
    vote = {"token": "0" * 32, "answered": "a"}
    late = client.post(f"{API}/letters/votes", json=vote, headers=headers)
    assert late.status_code == (409 if status == 200 else 404)


def test_a_review_of_a_version_names_it_and_one_of_nobody_is_refused(
    scene: Scene, client: Client
) -> None:
    scene.add("2.0.0")
    assert make(scene, client, assets={"new": f"{ASSET}@9.9.9"}).status_code == 422
    assert make(scene, client, 4, assets={"new": f"{ASSET}@2.0.0"}).status_code == 201
    vote_all(scene, client, "bob")
    sealed = close(scene, client).json()["candidates"][0]["result_id"]
    about = client.get(f"/api/v1/results/{sealed}").json()["candidate"]
    assert about == {"id": f"{ASSET}/2.0.0", "digest": digest("2.0.0")}
