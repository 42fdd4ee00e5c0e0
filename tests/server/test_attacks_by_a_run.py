"""A pack that is run from the page: its target tries to reach the judge, and gets nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.scene import Scene
from tests.server.test_interface import events_of

from gatemark.server.accounts.identity import read_roles
from gatemark.server.settings import ServerSettings
from gatemark.server.site import Site
from gatemark.targets.isolation import get_landlock_version
from gatemark.workspace import Workspace

PACK = """
gatemark: 1
name: sly
version: 1
asset: {kind: prompt, name: sly}
score_min: 0.5
regression_max: 0.5
suites: [{id: golden, kind: golden, weight: 1, dataset: golden.jsonl, scorer: exact}]
targets:
  candidate: {python: "app:answer", version: "1"ISOLATE}
  baseline: none
"""
IN_REACH = """
import os, json, pathlib, urllib.request
ABOUT = json.loads((pathlib.Path(__file__).parent / "about.json").read_text())
SECRETS = ABOUT["secrets"]
def environment():
    return any(secret in repr(os.environ) for secret in SECRETS)
def page():
    body = json.dumps({"roles": ["approver"]}).encode()
    wish = urllib.request.Request(
        ABOUT["page"] + "/api/v1/people/tom/roles", body, {"Content-Type": "application/json"},
        method="PUT",
    )
    return urllib.request.urlopen(wish, timeout=5).status < 400
"""
BEYOND = """
def parent():
    held = pathlib.Path(f"/proc/{os.getppid()}/environ").read_text()
    return any(secret in held for secret in SECRETS)
def key():
    return pathlib.Path(ABOUT["key"]).read_bytes()
def store():
    from gatemark.release.lifecycle.commands import GrantRoles
    from gatemark.release.lifecycle.act import act
    from gatemark.workspace import Workspace
    # The folder of a store can be guessed; the address of a database has a password.
    place = ABOUT["folder"] or os.environ["GATEMARK_STORE"]
    act(Workspace(store=place), GrantRoles(actor="root", person="tom", roles=("approver",)))
    return True
def pack():
    return (pathlib.Path(__file__).parent / "pack.yaml").write_text("x")
"""
ANSWER = """
def answer(text):
    got = []
    for attack in (ATTACKS):
        try:
            if attack():
                got.append(attack.__name__)
        except Exception:
            pass
    return " ".join(got) or "nothing"
"""
SECRETS = ("token-5e1f", "client-secret-77aa")


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    kind = request.param
    store = request.getfixturevalue("postgres_url") if kind != "sqlite" else str(tmp_path / "store")
    monkeypatch.setenv("GATEMARK_STORE", store)
    monkeypatch.setenv("GATEMARK_SESSION_KEY", str(tmp_path / "session.key"))
    monkeypatch.setenv("GATEMARK_TOKEN", SECRETS[0])
    monkeypatch.setenv("GATEMARK_OIDC_SECRET", SECRETS[1])
    (tmp_path / "packs").mkdir()
    made = Scene(store, packs=(str(tmp_path / "packs"),))
    yield made
    made.workspace.store.close()


def scored(scene: Scene, folder: Path, code: str, isolate: str) -> tuple[str, float]:
    """Run the sly pack from the page; give its verdict and its score, 1 if it got nothing."""
    rows = [{"id": f"r{n}", "input": "x", "target": "nothing"} for n in range(40)]
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "pack.yaml").write_text(PACK.replace("ISOLATE", isolate))
    (folder / "app.py").write_text(code)
    with scene.running() as client:
        about = {
            "page": str(client.base_url).rstrip("/"),
            "folder": "" if "://" in scene.store else scene.store,
            "key": str(folder.parent / "session.key"),
            "secrets": [scene.store, *SECRETS],
        }
        (folder / "about.json").write_text(json.dumps(about))
        headers = scene.session(client, "eve")
        run = client.post("/api/v1/runs", json={"pack": "pack.yaml"}, headers=headers).json()["id"]
        end = events_of(client, run)[-1][2]
        assert end["state"] == "done", end
        found = client.get(f"/api/v1/results/{end['result_id']}").json()
    scores = {one["name"]: one["value"] for one in found["measurements"]}
    return end["verdict"], scores["score"]


def attack(*names: str) -> str:
    return IN_REACH + BEYOND + ANSWER.replace("ATTACKS", ", ".join(names) + ",")


def test_the_environment_and_the_page_give_a_target_nothing(scene: Scene, tmp_path: Path) -> None:
    assert scored(scene, tmp_path / "packs", attack("environment", "page"), "") == ("pass", 1.0)
    assert read_roles(scene.workspace, "tom") == ("viewer",)


@pytest.mark.skipif(get_landlock_version() == 0, reason="this kernel has no Landlock")
def test_an_isolated_target_reaches_neither_the_server_nor_the_store(
    scene: Scene, tmp_path: Path
) -> None:
    code = attack("environment", "page", "parent", "key", "store", "pack")
    assert scored(scene, tmp_path / "packs", code, ", isolate: true") == ("pass", 1.0)
    assert read_roles(scene.workspace, "tom") == ("viewer",)


@pytest.mark.skipif(get_landlock_version() == 0, reason="this kernel has no Landlock")
def test_an_isolated_target_cannot_read_the_secrets_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_SESSION_KEY", str(tmp_path / "session.key"))
    for name in ("tls.key", "ledger.pem", "oidc.secret"):
        (tmp_path / name).write_text("a-secret")
    (tmp_path / "oidc.yaml").write_text(
        "gatemark_oidc: 1\nissuer: https://id.example\nclient_id: gate\n"
        "client_secret_file: oidc.secret\n"
    )
    (tmp_path / "packs").mkdir()
    site = Site(
        ServerSettings(
            packs=(str(tmp_path / "packs"),),
            tls_key=str(tmp_path / "tls.key"),
            tls_cert=str(tmp_path / "tls.key"),
            signing_key=str(tmp_path / "ledger.pem"),
            oidc=str(tmp_path / "oidc.yaml"),
        ),
        lambda person: Workspace(store=str(tmp_path / "store"), actor=person),
    )
    named = {path.name for path in site.board.secret_files}
    assert named == {"tls.key", "ledger.pem", "oidc.secret"}


def test_code_that_breaks_a_run_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_words: object, **_more: object) -> None:
        raise LookupError("quotes what somebody sent")

    monkeypatch.setattr("gatemark.server.run_board.run_pack", breaks)
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "pack.yaml").write_text(PACK)
    scene = Scene(str(tmp_path / "store"), packs=(str(tmp_path / "packs"),))
    with scene.running() as client, caplog.at_level("ERROR", logger="gatemark"):
        headers = scene.session(client, "eve")
        run = client.post("/api/v1/runs", json={"pack": "pack.yaml"}, headers=headers).json()["id"]
        end = events_of(client, run)[-1][2]
    assert end["detail"] == "the run ended with an internal error; see the server's log"
    (record,) = (one for one in caplog.records if one.name == "gatemark.server.run_board")
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError
    scene.workspace.store.close()


def test_the_attacks_are_real(scene: Scene, tmp_path: Path) -> None:
    """Without isolation a process of the same user reads the judge's files: that is found."""
    verdict, score = scored(scene, tmp_path / "packs", attack("key"), "")
    assert (verdict, score) == ("fail", 0.0)
