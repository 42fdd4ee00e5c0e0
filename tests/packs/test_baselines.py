"""Baselines by name: only what passed or was accepted, and every result says who chose it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.ledger.event import EventDraft
from gatemark.packs.events import BASELINE_SET
from gatemark.workspace import Workspace

Run = Callable[..., Any]

PACK = """\
gatemark: 1
name: {pack}
version: {version}
asset: {{kind: prompt, name: {asset}}}
score_min: {score_min}
regression_max: 0.1
required_suites: [g]
suites:
  - {{id: g, kind: golden, weight: 1.0, min: 0.5, dataset: g.jsonl}}
targets:
  candidate: {{python: "app:{function}"}}
  baseline: {baseline}
"""
APP = """
def right(number):
    return str(number)

def worse(number):
    return str(number) if number % 4 else "?"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"i{n}", "input": n, "target": str(n)} for n in range(60)]
    (tmp_path / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def run(gatemark: Run, folder: Path, *options: object, **values: object) -> Any:
    path = folder / "pack.yaml"
    given = {
        "pack": "t",
        "asset": "t",
        "version": 1,
        "function": "right",
        "score_min": 0.5,
        "baseline": "none",
        **values,
    }
    path.write_text(PACK.format(**given))
    return gatemark("run", path, "--store", folder / "store", "--json", *options)


def test_last_pass_takes_the_last_passing_result_of_the_same_pack_and_asset(
    gatemark: Run, folder: Path
) -> None:
    first = run(gatemark, folder)
    assert first.code == 0, first.err
    # Each of these is later, and none of them is a passing result of this pack and asset.
    assert run(gatemark, folder, pack="other").code == 0
    assert run(gatemark, folder, asset="other").code == 0
    assert run(gatemark, folder, function="worse", score_min=0.9, version=2).code == 1
    ran = run(gatemark, folder, "--baseline", "last-pass", function="worse")
    assert ran.code == 1, ran.json["blockers"]
    assert ran.json["baseline"] == first.json["candidate"]
    how = ran.json["runtime"]["baseline.chosen"]
    assert how.startswith("last-pass: the last passing result of pack t, result ")
    assert first.json["id"][7:19] in how
    assert f"baseline {how}" in ran.json["caveats"]
    assert gatemark("ledger", "verify", "--store", folder / "store").code == 0


def test_judging_again_says_how_the_baseline_was_chosen(gatemark: Run, folder: Path) -> None:
    assert run(gatemark, folder).code == 0
    ran = run(gatemark, folder, "--baseline", "last-pass", baseline='{python: "app:worse"}')
    assert ran.code == 0, ran.err
    store = ("--store", folder / "store", "--json")
    again = gatemark("gate", ran.json["id"], "--pack", folder / "pack.yaml", *store).json
    assert again["runtime"]["baseline.chosen"] == ran.json["runtime"]["baseline.chosen"]
    assert again["caveats"] == ran.json["caveats"]


def test_without_a_passing_result_there_is_no_last_pass(gatemark: Run, folder: Path) -> None:
    assert run(gatemark, folder, pack="other").code == 0
    ran = run(gatemark, folder, "--baseline", "last-pass")
    assert ran.code == 3
    assert "no result of pack t for prompt t has passed in this store" in ran.err


def test_a_result_that_failed_needs_a_reason_before_it_gets_a_name(
    gatemark: Run, folder: Path
) -> None:
    failed = run(gatemark, folder, function="worse", score_min=0.9).json["id"]
    store = ("--store", folder / "store")
    refused = gatemark("baseline", "set", "old", failed, *store)
    assert refused.code == 1
    assert "did not pass (fail), so it cannot be a baseline" in refused.err
    assert f"accept it first: gatemark baseline accept {failed[7:19]}" in refused.err
    for unsaid in (" ", "\u200b\u2800"):
        assert gatemark("baseline", "accept", failed, "--reason", unsaid, *store).code == 2
    assert (
        gatemark(
            "baseline", "accept", failed, "--reason", "two old items", "--actor", "ann", *store
        ).code
        == 0
    )
    named = gatemark("baseline", "set", "old", failed, "--actor", "bob", "--note", "v6", *store)
    assert named.code == 0, named.err
    ran = run(gatemark, folder, "--baseline", "old", function="worse", version=2)
    how = ran.json["runtime"]["baseline.chosen"]
    assert how.startswith("old: set by bob on ")
    assert "(v6)" in how
    assert how.endswith("which did not pass (fail) and was accepted by ann: two old items")
    (shown,) = gatemark("baseline", "list", "--json", *store).json
    assert (shown["name"], shown["result"], shown["actor"]) == ("old", failed, "bob")
    assert "old  " in gatemark("baseline", "show", "old", *store).out
    assert gatemark("ledger", "verify", *store).code == 0
    assert "no baseline is called 'new'" in gatemark("baseline", "show", "new", *store).err


@pytest.mark.parametrize("name", ["last-pass", "none", "0a1b2c3d", "a b", "abcdef0123", "-x"])
def test_some_names_stand_for_something_else(gatemark: Run, folder: Path, name: str) -> None:
    passed = run(gatemark, folder).json["id"]
    ran = gatemark("baseline", "set", "--store", folder / "store", "--", name, passed)
    assert ran.code == 2
    assert "cannot be the name of a baseline" in ran.err


def test_an_unknown_name_says_which_there_are(gatemark: Run, folder: Path) -> None:
    run(gatemark, folder)
    ran = run(gatemark, folder, "--baseline", "releese")
    assert ran.code == 2
    assert "no file, result or baseline is called 'releese' (baselines of pack t: none)" in ran.err


def test_a_baseline_by_commit_was_made_from_that_commit(gatemark: Run, folder: Path) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return subprocess.run(
            ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    run(gatemark, folder)  # writes the pack
    git("init", "-q")
    git("add", "app.py", "g.jsonl", "pack.yaml")
    git("commit", "-qm", "one")
    git("tag", "v1")
    made = run(gatemark, folder)
    assert made.json["runtime"]["git.dirty"] == "False"
    ran = run(gatemark, folder, "--baseline", "git:v1", function="worse")
    assert ran.json["baseline"] == made.json["candidate"]
    assert f"of commit {git('rev-parse', 'v1')[:12]}" in ran.json["runtime"]["baseline.chosen"]
    git("commit", "-qam", "two")
    missing = run(
        gatemark, folder, "--baseline", "git:HEAD", function="worse", score_min=0.6, version=2
    )
    assert missing.code == 3
    assert "no passing result of pack t was made from commit" in missing.err
    assert "git knows no commit 'v9'" in run(gatemark, folder, "--baseline", "git:v9").err
    assert run(gatemark, folder, "--baseline", "git:--help").code == 2


def test_verify_finds_a_baseline_that_was_never_sealed(gatemark: Run, folder: Path) -> None:
    run(gatemark, folder)
    workspace = Workspace(store=str(folder / "store"))
    forged = {"name": "x", "result": "sha256:" + "0" * 64, "pack": "t", "asset": "prompt t"}
    workspace.events.append([EventDraft(BASELINE_SET, workspace.clock(), "eve", "t", forged)])
    ran = gatemark("ledger", "verify", "--store", folder / "store")
    assert ran.code == 4
    assert "which was not sealed before" in ran.out + ran.err
