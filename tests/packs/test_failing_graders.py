"""Judges and embedding models that fail in the middle: partial evidence never makes a pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.targets.rigs import Answer, Request, serving

Run = Callable[..., Any]
ITEMS = 300

PACK = """
gatemark: 1
name: judged
version: 1
asset: {kind: prompt, name: shouting}
score_min: 0.5
regression_max: 0.03
ADAPTIVE
suites:
  - id: golden
    kind: golden
    weight: 1
    dataset: golden.jsonl
    scorer: {name: judge, judge: grader}
judges:
  grader: {target: {python: "judging:judge", version: "1"}, labels: labels.jsonl}
targets:
  candidate: {python: "app:CANDIDATE", version: "1"}
  baseline: {python: "app:right", version: "1"}
"""
JUDGE = """
import re, gatemark
def judge(prompt):
    nonce = re.search(r"<<<answer ([0-9a-f]+)>>>", prompt).group(1)
    said = re.search(rf"<<<answer {nonce}>>>\\n(.*?)\\n<<<end", prompt, re.S).group(1)
    FAILURE
    return {"output": f"GRADE {nonce}: {'CORRECT' if said.isupper() else 'INCORRECT'}"}
"""
APP = """
def number(text):
    return int(text.split()[-1])
def right(text):
    return text.upper()
def slips(text):
    return text if number(text) % 60 == 0 else text.upper()
def worse(text):
    return f"lost {number(text)}" if number(text) % 20 == 0 else text.upper()
def lost(text):
    return f"lost {number(text)}"
"""
OUTAGE = "raise gatemark.UnavailableError('the model is down')"
FAILURES = {
    "an outage": f"if said.startswith('lost'): {OUTAGE}",
    "a crash": "if said.startswith('lost'): raise RuntimeError('no')",
    "a death": "if said.startswith('lost'): import os; os._exit(0)",
    "nonsense": "if said.startswith('lost'): return {'output': 'no idea'}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def write(name: str, rows: list[dict[str, Any]]) -> None:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    write("golden.jsonl", [{"id": f"r{n:04d}", "input": f"say {n}"} for n in range(ITEMS)])
    labelled = [
        {
            "id": f"l{n}",
            "input": f"say {n}",
            "output": f"SAY {n}" if n % 2 else f"say {n}",
            "label": "CORRECT" if n % 2 else "INCORRECT",
        }
        for n in range(60)
    ]
    write("labels.jsonl", labelled)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def run(
    gatemark: Run, folder: Path, candidate: str, failure: str, *more: object, **parts: str
) -> Any:
    adaptive = parts.get("adaptive", "")
    text = PACK.replace("ADAPTIVE", adaptive).replace("CANDIDATE", candidate)
    (folder / "pack.yaml").write_text(text + parts.get("matrix", ""))
    (folder / "judging.py").write_text(JUDGE.replace("FAILURE", failure))
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json", *more)


def verified(gatemark: Run, folder: Path) -> Any:
    return gatemark("ledger", "verify", "--rescore", "--store", folder / "store")


def test_the_judge_as_it_is_settles_the_verdict_early(gatemark: Run, folder: Path) -> None:
    """What the failures below are held against: the pack does stop early, and does pass."""
    ran = run(gatemark, folder, "right", "pass", adaptive="adaptive: {looks: 3}")
    assert ran.code == 0, ran.out + ran.err
    assert ran.json["policy"]["settings"]["look"] < 3


@pytest.mark.parametrize("adaptive", ["", "adaptive: {looks: 3}"], ids=["whole", "rounds"])
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_judge_that_fails_on_wrong_answers_never_makes_a_pass(
    gatemark: Run, folder: Path, failure: str, adaptive: str
) -> None:
    ran = run(gatemark, folder, "worse", failure, adaptive=adaptive)
    assert ran.code in (1, 3), ran.out + ran.err
    if failure == FAILURES["an outage"]:
        assert ran.code == 3
        assert "the model is down" in ran.json["blockers"][0]
    assert verified(gatemark, folder).code == 0


def test_a_judge_that_goes_down_in_a_round_ends_it_inconclusive(
    gatemark: Run, folder: Path
) -> None:
    """The first round would settle it if what could not be judged were left out."""
    gone = f"if said == 'SAY 7': {OUTAGE}"
    ran = run(gatemark, folder, "right", gone, adaptive="adaptive: {looks: 3}")
    assert ran.code == 3, ran.out + ran.err
    assert "the model is down" in ran.json["blockers"][0]
    (folder / "judging.py").write_text(JUDGE.replace("FAILURE", "pass"))
    assert verified(gatemark, folder).code == 0


MATRIX = """
matrix:
  prompt:
    kept: {python: "app:right"}
    gone: {python: "app:lost"}
"""


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_judge_that_fails_for_one_candidate_of_a_matrix_leaves_the_others_alone(
    gatemark: Run, folder: Path, failure: str
) -> None:
    ran = run(gatemark, folder, "right", failure, matrix=MATRIX)
    kept, gone = ran.json["cells"]
    assert kept["verdict"] == "pass", ran.out
    assert gone["verdict"] != "pass"
    if failure == FAILURES["an outage"]:
        assert gone["verdict"] == "inconclusive"
        assert ran.code == 3
    assert verified(gatemark, folder).code == 0


VECTORS = """
gatemark: 1
name: ferries
version: 1
asset: {kind: prompt, name: ferries}
score_min: 0.0
regression_max: 0.2
suites:
  - id: golden
    kind: golden
    weight: 1.0
    dataset: boats.jsonl
    scorer: {name: embedding, options: {base_url: "URL/v1", model: tiny, timeout_s: 0.2}}
targets:
  candidate: {python: "app:right"}
  baseline: {python: "app:slips"}
"""


def _huge(_: Request) -> Answer:
    return Answer(b'{"data": [{"embedding": [' + b"1," * (10 << 20))


ENDLESS: dict[str, Callable[[Request], Answer]] = {
    "drips": lambda _: Answer({}, drips=True),
    "drips an error": lambda _: Answer({}, 500, drips=True),
    "says nothing": lambda _: Answer({}, delay_s=60),
    "breaks off": lambda _: Answer(b"{", headers={"content-length": "99"}),
}


@pytest.mark.parametrize("answer", ENDLESS.values(), ids=ENDLESS)
def test_an_embedding_endpoint_that_never_ends_could_not_be_asked(
    gatemark: Run, folder: Path, answer: Callable[[Request], Answer]
) -> None:
    rows = [{"id": f"b{n}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(40)]
    (folder / "boats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serving(answer) as server:
        (folder / "pack.yaml").write_text(VECTORS.replace("URL", server.url))
        ran = gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json")
        # The first text of either arm goes alone; with its retries that is all.
        assert len(server.requests) <= 8
    assert ran.code == 3, ran.out + ran.err
    assert "run.asked" in ran.json["blockers"][0]
    assert verified(gatemark, folder).code == 0


def test_an_embedding_reply_without_an_end_is_cut_and_scores_nothing(
    gatemark: Run, folder: Path
) -> None:
    rows = [{"id": f"b{n}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(4)]
    (folder / "boats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serving(_huge) as server:
        pack = VECTORS.replace("URL", server.url).replace("timeout_s: 0.2", "timeout_s: 20")
        (folder / "pack.yaml").write_text(pack)
        ran = gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json")
    assert ran.code in (1, 3), ran.out + ran.err
