from __future__ import annotations

import re

from httpx2 import Client
from tests.server.scene import ASSET, Scene

PAGES = (
    "/",
    "/approvals",
    "/results",
    "/runs",
    "/ledger",
    "/schedules",
    "/reviews",
    "/new-review",
    "/labels",
    "/new-labels",
    "/review-queue",
    "/attributions",
    "/tokens",
    "/compare",
    f"/assets/{ASSET}",
    f"/assets/{ASSET}/history",
    f"/assets/{ASSET}/versions/1.0.0",
    f"/approvals/{ASSET}/2.0.0",
)


def test_every_page_is_shown_to_people_with_a_role_and_to_nobody_else(
    scene: Scene, client: Client
) -> None:
    sealed = scene.enable("1.0.0")
    scene.to_shadow("2.0.0")
    for address in (*PAGES, f"/results/{sealed}"):
        client.cookies.clear()
        assert client.get(address).status_code == 303, address
        scene.session(client, "tom")
        shown = client.get(address)
        assert shown.status_code == 200, (address, shown.text)
        assert "default-src 'none'" in shown.headers["content-security-policy"]
        assert not re.search(r"<style|style=|<script>|onclick", shown.text), address
    scene.session(client, "zoe")
    assert client.get("/").status_code == 403


def test_an_empty_overview_shows_the_way_as_far_as_somebody_may_go(
    scene: Scene, client: Client
) -> None:
    scene.session(client, "root")
    admins = client.get("/").text
    assert '<a href="/people">Add people and give them roles</a>' in admins
    assert "An author adds a first version" in admins
    scene.session(client, "ann")
    authors = client.get("/").text
    assert "An admin adds people and gives them roles" in authors
    assert '<a href="/new-version">Add a first version</a>' in authors
    scene.enable("1.0.0")
    assert "How a first change goes live" not in client.get("/").text


def test_an_address_without_a_page_says_so(scene: Scene, client: Client) -> None:
    scene.session(client, "tom")
    shown = client.get("/nowhere")
    assert (shown.status_code, "not found" in shown.text) == (404, True)
    asked = client.put("/api/v1/ledger")
    assert asked.status_code == 405
    assert asked.json()["detail"] == "this address does not support that method"
    assert asked.headers["allow"] == "GET"
