"""Mistakes of the first hour: each message says what to do next."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PACK = """\
gatemark: 1
name: desk
version: 1
asset: {kind: prompt, name: desk}
score_min: 0.5
regression_max: 0.5
suites:
  - {id: golden, kind: golden, weight: 1, dataset: data.jsonl, scorer: exact}
targets:
  baseline: none
  candidate: {python: "desk:answer"}
"""
OPENAI = 'openai: {base_url: "http://127.0.0.1:9/v1", model: m, '


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """A pack with one mistake in it, in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("desk.py").write_text("def answer(text):\n    return text\n")
    Path("data.jsonl").write_text(json.dumps({"id": "a", "input": "x", "target": "x"}) + "\n")

    def write(right: str = "", wrong: str = "") -> str:
        assert right in PACK
        Path("pack.yaml").write_text(PACK.replace(right, wrong) if right else PACK)
        return "pack.yaml"

    return write


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        (
            "asset: {kind: prompt, name: desk}",
            "asset: desk",
            "pack.yaml:4: expected a mapping with the keys kind and name, got desk (at $.asset)",
        ),
        (
            "suites:\n  - {id",
            "suites: golden\nx:\n  - {id",
            "pack.yaml:7: expected a list, got golden (at $.suites)",
        ),
        (
            'python: "desk:answer"',
            OPENAI + "api_key: sk-1}",
            "pack.yaml:11: 'api_key' must not be written down; put the key into an environment "
            "variable and name that: api_key_env: MODEL_KEY",
        ),
        (
            'python: "desk:answer"',
            OPENAI + 'prompt: "file://prompt.txt"}',
            "prompt would be sent as the text 'file://prompt.txt'; write prompt_file: prompt.txt",
        ),
        (
            "desk:answer",
            "desk:anser",
            "python target: desk.py has no function 'anser'; did you mean 'answer'?",
        ),
        (
            "desk:answer",
            "dsk:answer",
            "no module 'dsk' in the pack's folder or installed; did you mean 'desk'?",
        ),
    ],
)
def test_a_mistake_in_a_pack(
    gatemark: Run, pack: Callable[[str, str], str], right: str, wrong: str, told: str
) -> None:
    ran = gatemark("run", pack(right, wrong))
    assert ran.code == 2
    assert told in ran.err
    assert "sk-1" not in ran.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'prompts: ["Say {{topic}}"]\nproviders: [echo]\ntests: []\n',
            "is a promptfoo config, not a pack; gate its results: "
            "promptfoo eval -c given.yaml -o cand.json, then gatemark compare base.json cand.json",
        ),
        (
            '{"evalId": "e", "results": {"results": []}}',
            "is a log, not a pack; compare two logs: gatemark compare base.json given.yaml",
        ),
        ("just: words\n", "given.yaml:1: unknown key 'just'"),
    ],
)
def test_another_file_in_place_of_a_pack(
    gatemark: Run, pack: Callable[[], str], text: str, told: str
) -> None:
    pack()
    Path("given.yaml").write_text(text)
    for command in ("run", "lint"):
        ran = gatemark(command, "given.yaml")
        assert (ran.code, told in ran.err) == (2, True), ran.err


def test_a_recording_with_other_ids(gatemark: Run, pack: Callable[[str, str], str]) -> None:
    row = {"testIdx": 0, "promptIdx": 0, "provider": "v1", "vars": {"q": "x"}, "success": True}
    rows = [{**row, "testCase": {"metadata": {"id": "other-1"}}}]
    Path("log.json").write_text(json.dumps({"evalId": "e", "results": {"results": rows}}))
    ran = gatemark("run", pack('python: "desk:answer"', "recorded: log.json"))
    assert ran.code == 1
    told = "nothing was recorded for id 'a', epoch 1; ids in the recording look like 'other-1'"
    assert told in " ".join(ran.out.split())


def test_a_recording_with_several_arms(gatemark: Run, pack: Callable[[str, str], str]) -> None:
    row = {"testIdx": 0, "vars": {"q": "x"}, "success": True}
    rows = [{**row, "promptIdx": n, "provider": name} for n, name in enumerate(("fast", "slow"))]
    Path("log.json").write_text(json.dumps({"evalId": "e", "results": {"results": rows}}))
    ran = gatemark("run", pack('python: "desk:answer"', "recorded: log.json"))
    assert ran.code == 2
    assert "choose one with log.json#ARM, by name or number: 1: 'fast', 2: 'slow'" in ran.err
    wrong = gatemark("compare", "log.json", "log.json", "--base-arm", "fast", "--cand-arm", "slwo")
    assert "has no arm 'slwo'; did you mean 'slow'? (arms: 1: 'fast', 2: 'slow')" in wrong.err


def test_no_store_yet(gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = gatemark("list")
    assert ran.code == 2
    assert "there is no store at .gatemark; the first sealed result makes it" in ran.err
    assert "--store or GATEMARK_STORE names another place" in ran.err


def test_an_unknown_asset(gatemark: Run, pack: Callable[[], str]) -> None:
    gatemark("run", pack())
    for person, role in (("ada", "admin"), ("ann", "author")):
        assert gatemark("role", "grant", person, role, "--actor", "ada").code == 0
    content = ("--kind", "prompt", "--digest", "sha256:" + "0" * 64, "--actor", "ann")
    assert gatemark("asset", "add", "desk@1", *content).code == 0
    told = "there is no asset desc; did you mean 'desk'? See: gatemark asset list"
    for words in (("asset", "show", "desc"), ("why", "desc@1"), ("asset", "history", "desc")):
        ran = gatemark(*words)
        assert (ran.code, told in ran.err) == (2, True), (words, ran.err)
    moved = gatemark("promote", "desc@1", "--to", "evaluating", "--actor", "ann")
    assert (moved.code, told in moved.err) == (1, True), moved.err
    assert "desk has no version 2 (known: 1)" in gatemark("why", "desk@2").err


def test_a_missing_extra(
    gatemark: Run, pack: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("data.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told = (
        "reading Parquet needs pyarrow, which is not installed: pip install 'gatemark[parquet]' "
        "(in a checkout: pip install '.[parquet]')"
    )
    ran = gatemark("run", pack("data.jsonl", "data.parquet"))
    assert (ran.code, told in ran.err) == (2, True), ran.err
