"""Packs with a model judge: asked through a target, licensed by people's labels, kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

APP = """
import pathlib, re

CALLS = pathlib.Path(__file__).parent / "judge.log"

def answer(text):
    return {"output": text.upper()}

def worse(text):
    return {"output": text if int(text.split()[-1]) % 4 == 0 else text.upper()}

def _grade(prompt, right, wrong):
    nonce = re.search(r"<<<answer ([0-9a-f]+)>>>", prompt).group(1)
    said = re.search(rf"<<<answer {nonce}>>>\\n(.*?)\\n<<<end", prompt, re.S).group(1)
    with CALLS.open("a") as log:
        log.write(nonce + "\\n")
    return f"Looked at it.\\nGRADE {nonce}: {right if said.isupper() else wrong}"

def good_judge(prompt):
    return {"output": _grade(prompt, "CORRECT", "INCORRECT")}

def lenient_judge(prompt):
    return {"output": _grade(prompt, "CORRECT", "CORRECT")}

def mute_judge(prompt):
    return {"output": 42}
"""

PACK = """
gatemark: 1
name: judged
version: 1
asset: {{kind: prompt, name: shouting}}
score_min: 0.9
regression_max: 0.02
suites:
  - id: helpful
    kind: golden
    weight: 1
    min: 0.9
    dataset: items.jsonl
    regression: point
    scorer: {{name: judge, judge: grader, options: {{votes: {votes}}}}}
judges:
  grader:
    target: {{python: "app:{judge}"}}
    labels: labels.jsonl
targets:
  candidate: {{python: "app:{candidate}"}}
  baseline: {{python: "app:answer"}}
"""


def labelled(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"l{n}",
            "input": f"say {n}",
            "output": f"SAY {n}" if n % 2 else f"say {n}",
            "label": "CORRECT" if n % 2 else "INCORRECT",
        }
        for n in range(count)
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    write(tmp_path / "items.jsonl", [{"id": f"i{n}", "input": f"say {n}"} for n in range(60)])
    write(tmp_path / "labels.jsonl", labelled(60))
    return tmp_path


def pack(
    folder: Path, *, judge: str = "good_judge", candidate: str = "answer", votes: int = 1
) -> Path:
    path = folder / "pack.yaml"
    path.write_text(PACK.format(judge=judge, candidate=candidate, votes=votes))
    return path


def run(gatemark: Run, folder: Path, path: Path, *more: object) -> Any:
    return gatemark("run", path, "--store", folder / "store", "--json", *more)


def findings(result: dict[str, Any]) -> dict[str, str]:
    return {finding["rule"]: finding["verdict"] for finding in result["findings"]}


def test_a_judge_that_agrees_with_people_may_gate(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder))
    assert ran.code == 0
    assert findings(ran.json)["helpful.judge"] == "pass"
    table = next(e for e in ran.json["figures"] if e["title"] == "helpful: the judge and people")
    facts = dict(table["rows"])
    assert facts["may gate"] == "yes"
    assert facts["answers graded by people"] == 60
    assert ran.json["cost"]["calls"] == 60 + 60 + 60 * 3


def test_a_licensed_judge_fails_a_worse_candidate(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder, candidate="worse"))
    assert ran.code == 1
    assert findings(ran.json)["helpful.floor"] == "fail"


@pytest.mark.parametrize("judge", ["lenient_judge", "mute_judge"])
def test_a_judge_without_a_qualification_leaves_everything_open(
    gatemark: Run, folder: Path, judge: str
) -> None:
    ran = run(gatemark, folder, pack(folder, judge=judge, candidate="worse"))
    assert ran.code == 3
    states = findings(ran.json)
    assert states["helpful.floor"] == states["bench.score_min"] == "inconclusive"
    assert states["helpful.regression"] == "inconclusive"
    assert ran.json["bench"]["value"] is None
    assert any("may not gate" in blocker for blocker in ran.json["blockers"])


def test_a_judge_without_a_qualification_cannot_break_a_probe_either(
    gatemark: Run, folder: Path
) -> None:
    (folder / "app.py").write_text(
        APP
        + """
def wrong_way_round(prompt):
    return {"output": _grade(prompt, "INCORRECT", "CORRECT")}
"""
    )
    path = pack(folder, judge="wrong_way_round")
    text = (
        path.read_text().replace("kind: golden", "kind: adversarial").replace("    min: 0.9\n", "")
    )
    path.write_text(
        text.replace('baseline: {python: "app:answer"}', 'baseline: {python: "app:worse"}')
    )
    ran = run(gatemark, folder, path)
    assert ran.code == 3
    assert findings(ran.json)["helpful.broken_probes"] == "inconclusive"


def test_lint_warns_when_too_few_answers_are_labelled(gatemark: Run, folder: Path) -> None:
    warning = "judge grader can never gate suite helpful: people labelled 49 answers"
    for count, warned in ((49, True), (50, False)):
        write(folder / "labels.jsonl", labelled(count))
        warnings = gatemark("lint", pack(folder), "--json").json["warnings"]
        assert any(warning in found for found in warnings) == warned


def test_too_few_labels_license_nobody(gatemark: Run, folder: Path) -> None:
    write(folder / "labels.jsonl", labelled(30))
    ran = run(gatemark, folder, pack(folder))
    assert ran.code == 3
    assert findings(ran.json)["helpful.judge"] == "inconclusive"


def test_judging_again_asks_no_judge(gatemark: Run, folder: Path) -> None:
    path = pack(folder, votes=3)
    first = run(gatemark, folder, path).json
    asked = (folder / "judge.log").read_text()
    again = gatemark("gate", first["id"], "--pack", path, "--store", folder / "store", "--json")
    assert again.code == 0
    assert (folder / "judge.log").read_text() == asked
    numbers = {(m["name"], m["scope"]): m["value"] for m in again.json["measurements"]}
    assert numbers["score", "helpful"] == 1.0


def test_replies_to_another_rubric_count_for_nothing(gatemark: Run, folder: Path) -> None:
    path = pack(folder)
    first = run(gatemark, folder, path).json
    rubric = (
        "{rubric: [{label: CORRECT, value: 1, meaning: shouts}, "
        "{label: INCORRECT, value: 0, meaning: whispers}]}"
    )
    path.write_text(path.read_text().replace("{votes: 1}", rubric))
    again = gatemark("gate", first["id"], "--pack", path, "--store", folder / "store", "--json")
    assert again.code == 3
    numbers = {(m["name"], m["scope"]): m["value"] for m in again.json["measurements"]}
    assert numbers["error_rate", "helpful"] == 1.0


def test_every_prompt_has_a_mark_of_its_own(gatemark: Run, folder: Path) -> None:
    run(gatemark, folder, pack(folder, votes=3))
    nonces = (folder / "judge.log").read_text().split()
    candidate_and_qualification = 60 * 3 * 2
    assert len(nonces) == 60 * 3 * 3
    assert len(set(nonces)) == candidate_and_qualification, (
        "equal answers get equal prompts, others not"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("name: judge, judge: grader", "name: judge"), "not used by any suite"),
        (
            ("name: judge, judge: grader", "name: exact, judge: grader"),
            "scorer exact: unknown key 'votes'",
        ),
        (("judge: grader", "judge: stranger"), "not among the pack's judges"),
        (("labels: labels.jsonl", "labels: nowhere.jsonl"), "nowhere.jsonl"),
        (("labels: labels.jsonl\n", "\n"), "labels"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused(
    gatemark: Run, folder: Path, change: tuple[str, str], words: str
) -> None:
    path = pack(folder)
    path.write_text(path.read_text().replace(*change))
    ran = run(gatemark, folder, path)
    assert ran.code == 2
    assert words in ran.err


def test_a_judge_that_cannot_be_loaded_leaves_no_other_judge_running(
    gatemark: Run, folder: Path
) -> None:
    path = pack(folder)
    suite = path.read_text().split("suites:\n")[1].split("judges:\n")[0]
    second = suite.replace("helpful", "kind").replace("grader", "other")
    judge = "  other: {target: {python: 'app:gone'}, labels: labels.jsonl}\n"
    path.write_text(
        path.read_text()
        .replace(suite, suite + second)
        .replace("weight: 1", "weight: 0.5")
        .replace("targets:\n", f"{judge}targets:\n")
    )
    ran = run(gatemark, folder, path)
    assert ran.code == 2
    assert "'gone'" in ran.err
    # The guard of every test looks for processes that are left.


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": "x", "input": "say", "label": "CORRECT"}, "'x' has no output"),
        ({"id": "x", "input": "say", "output": "SAY", "label": "GREAT"}, "has label 'GREAT'"),
    ],
)
def test_labels_that_are_no_labels_are_refused(
    gatemark: Run, folder: Path, row: dict[str, Any], words: str
) -> None:
    write(folder / "labels.jsonl", [*labelled(60), row])
    path = pack(folder)
    ran = run(gatemark, folder, path)
    assert ran.code == 2
    assert words in ran.err
    linted = gatemark("lint", path)
    assert linted.code != 0
    assert words in linted.out + linted.err


def test_a_judged_result_can_be_derived_again_from_the_store(gatemark: Run, folder: Path) -> None:
    run(gatemark, folder, pack(folder, votes=3, candidate="worse"))
    asked = (folder / "judge.log").read_text()
    (folder / "labels.jsonl").unlink()
    verified = gatemark("ledger", "verify", "--rescore", "--store", folder / "store", "--json")
    assert verified.code == 0, verified.out
    assert (folder / "judge.log").read_text() == asked


@pytest.mark.parametrize(("candidate", "code"), [("answer", 0), ("worse", 1)])
def test_judged_suites_are_pooled(gatemark: Run, folder: Path, candidate: str, code: int) -> None:
    path = pack(folder, candidate=candidate)
    text = path.read_text().replace("    regression: point\n", "").replace("    min: 0.9\n", "")
    first = text[text.index("  - id: helpful") : text.index("judges:")]
    second = first.replace("helpful", "kind").replace("items.jsonl", "more.jsonl")
    halves = (first + second).replace("weight: 1", "weight: 0.5")
    path.write_text(text.replace(first, halves).replace("max: 0.02", "max: 0.1"))
    write(folder / "more.jsonl", [{"id": f"m{n}", "input": f"tell {n}"} for n in range(60)])
    ran = run(gatemark, folder, path)
    assert ran.code == code, ran.json["blockers"]
    assert findings(ran.json)["bench.regression"] == ("fail" if code else "pass")


def test_rounds_pay_a_judge_once_for_each_answer(gatemark: Run, folder: Path) -> None:
    path = pack(folder)
    text = path.read_text().replace("    regression: point\n", "").replace("max: 0.02", "max: 0.1")
    path.write_text(text.replace("suites:", "adaptive: {looks: 3}\nsuites:"))
    ran = run(gatemark, folder, path)
    assert ran.json["policy"]["settings"]["look"] > 1
    asked = ran.json["evidence"][0]["expected"]
    assert len((folder / "judge.log").read_text().splitlines()) == 60 + 2 * asked
    assert ran.json["cost"]["calls"] == 60 + 4 * asked
