"""What was judged is what was named: declared files, versions, packages, reported models."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.targets.rigs import Answer, serving

Run = Callable[..., Any]

PACK = """
gatemark: 1
name: greeting
version: 1
asset: {kind: prompt, name: greeting}
score_min: 0.5
regression_max: 0.2
suites:
  - {id: golden, kind: golden, weight: 1.0, dataset: golden.jsonl, scorer: contains}
targets:
  candidate: CANDIDATE
  baseline: none
"""
APP = """
import pathlib
import yaml

def answer(name):
    return (pathlib.Path(__file__).parent / "prompts" / "greet.txt").read_text() + name
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"r{n}", "input": f"n{n}", "target": f"n{n}"} for n in range(30)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "greet.txt").write_text("Hello ")
    return tmp_path


def _run(gatemark: Run, folder: Path, candidate: str, *more: object) -> Any:
    (folder / "pack.yaml").write_text(PACK.replace("CANDIDATE", candidate))
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json", *more)


def test_declared_files_belong_to_the_digest(gatemark: Run, folder: Path) -> None:
    digests = []
    for prompt in ("Hello ", "Hello ", "Hi "):
        (folder / "prompts" / "greet.txt").write_text(prompt)
        candidate = '{python: "app:answer", files: ["prompts/*.txt"]}'
        digests.append(_run(gatemark, folder, candidate).json["candidate"]["digest"])
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [("promts/*.txt", "no file matches 'promts/*.txt'"), ("../x", "must stay inside the pack")],
)
def test_a_pattern_that_covers_nothing_is_refused(
    gatemark: Run, folder: Path, pattern: str, complaint: str
) -> None:
    ran = _run(gatemark, folder, f'{{python: "app:answer", files: ["{pattern}"]}}')
    assert ran.code == 2
    assert complaint in ran.err


def test_the_runtime_lists_the_packages_of_the_target(gatemark: Run, folder: Path) -> None:
    ran = _run(gatemark, folder, '{python: "app:answer"}')
    found = importlib.metadata.version("PyYAML")
    assert ran.json["runtime"]["packages.candidate"] == f"pyyaml {found}"


def test_a_cache_refuses_a_target_that_may_have_changed(gatemark: Run, folder: Path) -> None:
    ran = _run(gatemark, folder, '{python: "app:answer"}', "--cache")
    assert ran.code == 2
    assert "targets.candidate is not pinned" in ran.err
    assert "files: [prompts/*.txt], or say files: [] when it reads none" in ran.err
    with serving(lambda request: Answer({"out": request.body["input"]})) as server:
        endpoint = f"http: {{url: '{server.url}', response: out}}"
        ran = _run(gatemark, folder, f"{{{endpoint}}}", "--cache")
        assert (ran.code, len(server.requests)) == (2, 0)
        assert "add version: beside it" in ran.err
        for asked in (30, 30):
            ran = _run(gatemark, folder, f"{{{endpoint}, version: '2026-11'}}", "--cache")
            assert (ran.code, len(server.requests)) == (0, asked)
    (caveat,) = ran.json["caveats"]
    assert caveat.startswith(
        "run.cached was not measured: 30 answers of the candidate were reused (--cache); "
        "reused answers are not authenticated"
    )
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.out + checked.err


def test_a_changed_prompt_is_never_answered_from_the_cache(gatemark: Run, folder: Path) -> None:
    candidate = '{python: "app:answer", files: ["prompts/*.txt"]}'
    for prompt, verdict in (("Hello ", 0), ("", 0), ("Hello ", 0)):
        (folder / "prompts" / "greet.txt").write_text(prompt)
        ran = _run(gatemark, folder, candidate, "--cache")
        assert ran.code == verdict
        (blob,) = (b for b in ran.json["blobs"] if b["name"] == "golden.candidate.jsonl")
        name = blob["digest"].removeprefix("sha256:")
        (kept,) = (folder / "store").glob(f"blobs/*/*{name[2:]}*")
        assert json.loads(kept.read_text().splitlines()[0])["output"] == f"{prompt}n0"


def test_an_endpoint_is_known_by_its_version_or_by_the_model_it_reports(
    gatemark: Run, folder: Path
) -> None:
    model = ["m-2026-01"]
    with serving(lambda r: Answer({"out": r.body["input"], "model": model[0]})) as server:
        paths = "{output: out, model: model}"

        def digest(more: str = "") -> str:
            ran = _run(
                gatemark, folder, f"{{http: {{url: '{server.url}', response: {paths}}}{more}}}"
            )
            found: str = ran.json["candidate"]["digest"]
            return found

        before, pinned = digest(), digest(", version: v1")
        model[0] = "m-2026-02"
        assert digest() != before
        assert digest(", version: v1") == pinned
        assert digest(", version: v2") != pinned
