from __future__ import annotations

import re

from httpx import Client
from tests.web.scene import ASSET, Scene

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
