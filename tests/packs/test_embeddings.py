"""Scores by an embedding model: asked once per text, kept, and derived again offline."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.targets.rigs import Answer, Request, serving

Run = Callable[..., Any]

ITEMS = 60
PACK = """
gatemark: 1
name: ferries
version: 1
asset: {kind: prompt, name: ferries}
score_min: 0.5
regression_max: 0.2
required_suites: [golden]
suites:
  - id: golden
    kind: golden
    weight: 1.0
    min: 0.5
    dataset: golden.jsonl
    scorer: {name: embedding, options: {base_url: "URL/v1", model: tiny, timeout_s: 5 MORE}}
targets:
  candidate: {python: "app:CANDIDATE"}
  baseline: {python: "app:close"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"r{n:03d}", "input": f"boat {n}", "target": "a boat"} for n in range(ITEMS)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "app.py").write_text(
        "def close(text):\n    return 'a ship'\ndef far(text):\n    return 'a tree'\n"
    )
    return tmp_path


VECTORS = {"a boat": [1.0, 0.0], "a ship": [0.8, 0.6], "a tree": [0.1, math.sqrt(0.99)]}


def _embed(request: Request) -> Answer:
    assert request.path == "/v1/embeddings"
    assert request.body["model"] == "tiny"
    vector = VECTORS[request.body["input"]]
    return Answer({"model": "tiny-1", "data": [{"index": 0, "embedding": vector}]})


def _run(gatemark: Run, folder: Path, url: str, *options: object, **change: str) -> Any:
    words = {"CANDIDATE": "close", "MORE": "", **change}
    text = PACK.replace("URL", url)
    for word, value in words.items():
        text = text.replace(word, value)
    (folder / "pack.yaml").write_text(text)
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json", *options)


def _score(result: Any) -> Any:
    return next(n for n in result["measurements"] if n["name"] == "score")


def test_the_cosine_is_the_score_and_each_text_is_asked_about_once(
    gatemark: Run, folder: Path
) -> None:
    with serving(_embed) as server:
        ran = _run(gatemark, folder, server.url)
        asked = sorted(request.body["input"] for request in server.requests)
    assert ran.code == 0, ran.err + ran.out
    assert asked == ["a boat", "a boat", "a ship", "a ship"]  # of the candidate and the baseline
    score = _score(ran.json)
    assert score["value"] == pytest.approx(0.8, abs=1e-6)
    assert any("similarity by tiny" in caveat for caveat in score["caveats"])
    # The endpoint is gone; what was kept is enough.
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.out + checked.err
    again = gatemark(
        "gate",
        ran.json["id"],
        "--pack",
        folder / "pack.yaml",
        "--store",
        folder / "store",
        "--json",
    )
    assert again.code == 0, again.err
    assert _score(again.json)["value"] == score["value"]


def test_a_worse_candidate_fails(gatemark: Run, folder: Path) -> None:
    with serving(_embed) as server:
        ran = _run(gatemark, folder, server.url, CANDIDATE="far")
    assert ran.code == 1
    assert _score(ran.json)["value"] == pytest.approx(0.1, abs=1e-6)


def test_a_threshold_makes_right_and_wrong(gatemark: Run, folder: Path) -> None:
    with serving(_embed) as server:
        ran = _run(gatemark, folder, server.url, MORE=", at_least: 0.75")
    assert _score(ran.json)["value"] == 1.0


def test_an_endpoint_that_is_down_holds_the_verdict_and_resume_asks_it_alone(
    gatemark: Run, folder: Path
) -> None:
    with serving(lambda _: Answer({"error": "busy"}, status=503)) as server:
        url = server.url
        ran = _run(gatemark, folder, url)
        assert ran.code == 3
        assert "run.asked" in ran.json["blockers"][0]
        assert "503" in ran.json["blockers"][0]
        checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
        assert checked.code == 0, checked.out + checked.err


@pytest.mark.parametrize(
    "body", [{"data": []}, {"data": [{"embedding": "x"}]}, {"data": [{"embedding": [0, 0]}]}, []]
)
def test_replies_without_a_vector_score_nothing(gatemark: Run, folder: Path, body: object) -> None:
    with serving(lambda _: Answer(body)) as server:
        ran = _run(gatemark, folder, server.url)
    assert ran.code != 0
    assert not any(f["verdict"] == "pass" and "floor" in f["rule"] for f in ran.json["findings"])


def test_vectors_that_were_changed_do_not_verify(gatemark: Run, folder: Path) -> None:
    with serving(_embed) as server:
        ran = _run(gatemark, folder, server.url)
    (blob,) = [b for b in ran.json["blobs"] if b["name"] == "golden/candidate.vectors"]
    name = blob["digest"].removeprefix("sha256:")
    (path,) = (folder / "store").rglob(f"*{name[4:]}*")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"vector", b"victor"))
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 4


def test_the_cache_needs_a_version(gatemark: Run, folder: Path) -> None:
    ran = _run(gatemark, folder, "http://127.0.0.1:9", "--cache")
    assert ran.code == 2
    assert "not pinned" in ran.err


def test_it_cannot_be_one_of_several(gatemark: Run, folder: Path) -> None:
    text = PACK.replace("URL", "http://127.0.0.1:9").replace("MORE", "")
    text = text.replace("CANDIDATE", "close")
    inner = "{scorer: embedding, options: {base_url: 'http://127.0.0.1:9', model: tiny}}"
    (folder / "pack.yaml").write_text(
        text.replace(
            '{name: embedding, options: {base_url: "http://127.0.0.1:9/v1", model: tiny, '
            "timeout_s: 5 }}",
            f"{{name: combined, options: {{scorers: [{inner}]}}}}",
        )
    )
    ran = gatemark("run", folder / "pack.yaml", "--store", folder / "store")
    assert ran.code == 2
    assert "embedding cannot be one of several scorers" in ran.err
