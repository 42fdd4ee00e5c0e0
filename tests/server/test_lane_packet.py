"""From three runs of real services to packets that a second person approves in the page."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Client
from tests.plugins.advisory.dry_run.rigs import serving as serving_gateway
from tests.server.scene import Scene, new_scene

from gatemark.plugins.advisory.gateway.server import open_gateway

Run = Callable[..., Any]
VOICE = "voice_audio/npu_voice_audio_pipeline"
BOARD = "kanban_hygiene/kanban_hygiene_advisory"
BOUNDS = {"false_negative_rate_max": 0.03, "missed_action_rate_max": 0.07}
POLICY: dict[str, Any] = {
    "gatemark_advisory": 1,
    "lanes": {
        lane: {
            "promotion": {
                "scope": "sort for the weekly digest",
                "approved_by": "the committee",
                "rollback_plan": "remove the lane from the digest",
                "reviewer": "the secretary",
            },
            "bounds": {"p95_total_ms_max": 60_000, **BOUNDS},
        }
        for lane in (VOICE, BOARD)
    },
    "overall": BOUNDS,
}


def advise(card: dict[str, Any]) -> tuple[str, str, float]:
    if "maybe" in card["comment"] or "unclear" in card["comment"]:
        return "needs_human", "low", 0.4
    if not card["has_owner"]:
        return "escalate", "high", 0.9
    if card["column"] == "blocked":
        return "suppress", "info", 0.8
    if card["days_in_column"] >= 40:
        return "summarize", "low", 0.8
    return "no_action", "none", 0.8


class Board(BaseHTTPRequestHandler):
    """An own service, as somebody would write it in an hour."""

    def do_POST(self) -> None:
        envelope = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        label, severity, confidence = advise(envelope["payload"])
        reply = {"label": label, "severity": severity, "confidence": confidence}
        data = json.dumps({**reply, "model": "board-rules-1"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def own_service() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Board)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.chdir(tmp_path)
    made = new_scene(tmp_path, clock=lambda: datetime.now(UTC))
    yield made
    made.workspace.store.close()


def write_pack(lane: str) -> str:
    """The required pack of a lane; gives its path."""
    suite = {"id": "advice", "kind": "advisory", "weight": 1, "baseline_evidence": "none"}
    policy = {key: value for key, value in POLICY.items() if key != "gatemark_advisory"}
    suite |= {"evidence": {"decisions": "three-runs.jsonl"}, "options": {"policy": policy}}
    name = lane.replace("/", ".")
    pack = {"gatemark": 1, "name": f"advice-{name}", "version": 1, "score_min": 0.9}
    pack |= {"asset": {"kind": "lane", "name": name}, "regression_max": 0, "suites": [suite]}
    Path(f"{name}.yaml").write_text(json.dumps(pack))
    return f"{name}.yaml"


def propose(gatemark: Run, lane: str) -> str:
    """Seal the result of a lane and take it to eligible; gives the id of the result."""

    def acting(actor: str, *arguments: str) -> Any:
        ran = gatemark(*arguments, "--store", "store", "--actor", actor)
        assert ran.code == 0, ran.err
        return ran

    pack, asset = write_pack(lane), lane.replace("/", ".")
    ran = acting("eve", "run", pack, "--json")
    result: str = ran.json["id"]
    acting("ann", "asset", "add", f"{asset}@1", "--kind", "lane", "--from", result)
    acting("eve", "asset", "pack", asset, pack)
    acting("ann", "promote", f"{asset}@1", "--to", "evaluating")
    acting("eve", "promote", f"{asset}@1", "--to", "eligible", "--cite", result)
    return result


def ballot(scene: Scene, client: Client, page: str) -> dict[str, str]:
    """The fields of the form, as the page has them."""
    found: dict[str, str] = {}
    for name in ("stage", "candidate_digest", "policy_digest", "tag"):
        _, _, rest = page.partition(f'name="{name}" value="')
        found[name] = rest.partition('"')[0].replace("&#34;", '"')
    return {**found, "form_mark": scene.mark(client), "decision": "approve", "note": "read it"}


def test_three_runs_end_in_packets_that_a_second_person_approves(
    gatemark: Run, scene: Scene
) -> None:
    Path("policy.json").write_text(json.dumps(POLICY))
    with serving_gateway(open_gateway(0, "CPU", "no-counter")) as gateway, own_service() as own:
        services = (f"voice_audio={gateway}", f"kanban_hygiene={own}")
        ran = gatemark(
            *("advisory", "run", "--policy", "policy.json", "--out", "out", "--runs", "3"),
            *(part for service in services for part in ("--service", service)),
        )
    assert ran.code == 0, ran.out
    runs = sorted(Path("out/runs").glob("*/decisions.jsonl"))
    assert len(runs) == 3
    Path("three-runs.jsonl").write_text("".join(path.read_text() for path in runs))
    results = {lane: propose(gatemark, lane) for lane in (VOICE, BOARD)}
    with scene.running() as client:
        for lane, result in results.items():
            asset = lane.replace("/", ".")
            address = f"/approvals/{asset}/1"
            packet = gatemark(
                "advisory", "packet", lane, "--result", result, "--store", "store", "--json"
            ).json
            assert packet["blockers"] == []
            scene.session(client, "ann")
            own_page = client.get(address).text
            assert "You cannot vote on this: ann is the author" in own_page
            refused = client.post(address, data=ballot(scene, client, own_page))
            assert refused.status_code == 403
            scene.session(client, "bob")
            assert f"/approvals/{asset}/1" in client.get("/").text
            page = client.get(address).text
            for words in (f"Packet for discussion: {lane}", "candidate for discussion"):
                assert words in page
            for words in (packet["scope"], packet["rollback_plan"], *packet["models"]):
                assert words in page
            assert "No authority is granted" in page
            voted = client.post(address, data=ballot(scene, client, page))
            assert voted.status_code == 303, voted.text
            scene.session(client, "olu")
            fields = {"version": "1", "to": "shadow", "environment": "production"}
            tag = client.get(f"/api/v1/assets/{asset}").headers["ETag"]
            form = {**fields, "tag": tag, "form_mark": scene.mark(client)}
            moved = client.post(f"/assets/{asset}/promote", data=form)
            assert moved.status_code == 303, moved.text
            shown = client.get(f"/assets/{asset}").text
            assert "no stage gives it authority" in shown
            assert ">enabled</option>" not in shown
    why = gatemark("why", f"{VOICE.replace('/', '.')}@1", "--store", "store")
    assert "approved by bob" in why.out
    assert gatemark("ledger", "verify", "--rescore", "--store", "store").code == 0
