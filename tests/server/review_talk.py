"""Short ways to talk to the interface of reviews and labels."""

from __future__ import annotations

import json
from typing import Any

from httpx2 import Client, Response
from tests.server.scene import Scene

API = "/api/v1/reviews"
LABELS = "/api/v1/labels"
HOSTILE = '<script>alert(1)</script> [x](javascript:alert(2)) <img src=x onerror="alert(3)">'


def lines(words: str, count: int = 20, tail: str = "") -> str:
    rows = [
        {
            "schema": "gatemark.sample/1",
            "id": f"q{at:02}",
            "input": f"question {at}",
            "output": f"{words} {at}{tail}",
            "scores": {},
        }
        for at in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def make(scene: Scene, client: Client, count: int = 20, **more: Any) -> Response:
    headers = scene.session(client, "eve")
    tail = more.pop("tail", "")
    body = {
        "name": "letters",
        "candidates": ["new"],
        "baseline": "old",
        "samples": {"new": lines("New", count, tail), "old": lines("Old", count, tail)},
        **more,
    }
    return client.post(API, json=body, headers=headers)


def vote_all(
    scene: Scene, client: Client, person: str, word: str = "New", review: str = "letters"
) -> list[dict[str, Any]]:
    headers = scene.session(client, person)
    seen = []
    while (found := client.get(f"{API}/{review}/next").json())["pair"] is not None:
        pair = found["pair"]
        seen.append(pair)
        body = {"token": pair["token"], "answered": "a" if pair["a"].startswith(word) else "b"}
        assert client.post(f"{API}/{review}/votes", json=body, headers=headers).status_code == 200
    return seen


def close(scene: Scene, client: Client, person: str = "eve", **body: Any) -> Response:
    headers = scene.session(client, person)
    return client.post(f"{API}/letters/closing", json=body, headers=headers)


def label_set(scene: Scene, client: Client, **more: Any) -> Response:
    headers = scene.session(client, "eve")
    body = {
        "name": "tone",
        "labels": ["good", "bad"],
        "source": "pilot, May",
        "samples": lines("Said", 3),
        **more,
    }
    return client.post(LABELS, json=body, headers=headers)


def give(scene: Scene, client: Client, person: str, word: str) -> int:
    headers = scene.session(client, person)
    count = 0
    while (found := client.get(f"{LABELS}/tone/next").json())["item"] is not None:
        body = {"item": found["item"]["id"], "label": word}
        assert client.post(f"{LABELS}/tone/marks", json=body, headers=headers).status_code == 200
        count += 1
    return count
