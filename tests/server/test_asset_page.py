from __future__ import annotations

import re

from httpx import Client
from tests.server.scene import ASSET, Scene


def test_an_asset_page_offers_only_what_is_legal_and_keeps_the_last_version_live(
    scene: Scene, client: Client
) -> None:
    scene.enable("1.0.0")
    scene.to_shadow("2.0.0")
    mark = scene.session(client, "olu")["X-CSRF-Token"]
    page = client.get(f"/assets/{ASSET}").text
    stages = [
        re.findall(r"<option[^>]*>(\w+)</option>", one)
        for one in re.findall(r'<label>Stage<select name="to" required>(.*?)</select>', page)
    ]
    assert sorted(stages) == [["canary", "retired"], ["retired"]]
    gates = re.findall(r'<select name="gate" required>(.*?)</select>', page)
    assert set(gates) == {"<option>replay</option>"}
    fields = {"form_mark": mark, "version": "1.0.0", "note": "odd", "to": "demoted"}
    refused = client.post(f"/assets/{ASSET}/demote", data=fields)
    assert "no earlier version can take over" in refused.text
    assert client.get(f"/api/v1/assets/{ASSET}/route").json()["primary"]["version"] == "1.0.0"
    done = client.post(f"/assets/{ASSET}/demote", data=fields | {"stop": "yes"})
    assert done.status_code == 303
    assert client.get(f"/api/v1/assets/{ASSET}/route").json()["primary"] is None
