"""The walk of a new user, from an empty folder to a failing gate, with what the docs show.

The user has an endpoint, a prompt in a file, probes, a program and exported traces. Snippets come
from the pages where there are some, so that a page that leads astray is noticed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.targets.rigs import Answer, Request, serving

Run = Callable[..., Any]

DOCS = Path(__file__).resolve().parents[2] / "docs"
OWN_PACK = """\
gatemark: 1
name: mail
version: 1
asset: {kind: prompt, name: mail}
score_min: 0.8
regression_max: 0.05
required_suites: [golden, probes]
suites:
  - {id: golden, kind: golden, weight: 0.5, min: 0.9, dataset: data/golden.jsonl, scorer: exact}
  - id: probes
    kind: adversarial
    weight: 0.5
    min: 1.0
    dataset: data/probes.jsonl
    template: "{{input.context}} {{input.user}}"
targets:
  candidate: CANDIDATE
  baseline: none
"""


def snippet(page: str, language: str, *words: str) -> str:
    """The first block of a page that has all the words."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(rf"```{language}[^\n]*\n(.*?)```", text, re.DOTALL)
    return str(next(block for block in blocks if all(word in block for word in words)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder into which the user writes data, a prompt and a probe."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "prompts").mkdir()
    rows = []
    for number in range(60):
        question, label = (
            ("Where is my parcel", "delivery") if number % 2 else ("Why was I charged", "billing")
        )
        rows.append({"id": f"m{number}", "input": f"{question} {number}?", "target": label})
    (tmp_path / "data/golden.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (tmp_path / "data/probes.jsonl").write_text(snippet("reference/probes.md", "json", "own-1"))
    prompt = snippet("how-to/call-a-model.md", "text", "Sort this message")
    (tmp_path / "prompts/sort.txt").write_text(prompt.replace("({{sample.lang}})", ""))
    return tmp_path


def _sorter(request: Request) -> Answer:
    """An application that sorts mail, and obeys whatever its documents say."""
    text = request.body["messages"][-1]["content"]
    assert "Sort this message" in text
    answer = "delivery" if "parcel" in text else "billing"
    if "print HARBOUR-77" in text:
        answer = "HARBOUR-77"
    return Answer({"model": "sorter-1", "choices": [{"message": {"content": answer}}]})


def test_an_own_endpoint_with_a_prompt_file_fails_by_an_own_probe(
    gatemark: Run, folder: Path
) -> None:
    with serving(_sorter) as server:
        target = (
            f"{{openai: {{base_url: '{server.url}/v1', model: sorter-1, "
            "prompt_file: prompts/sort.txt}}"
        )
        (folder / "pack.yaml").write_text(OWN_PACK.replace("CANDIDATE", target))
        linted = gatemark("lint", "pack.yaml")
        assert linted.code == 0, linted.err
        ran = gatemark("run", "pack.yaml", "-o", "report.md")
    assert ran.code == 1
    assert "probes.newly_broken_count must be <= 0, got 1" in ran.out
    assert "**FAIL**" in (folder / "report.md").read_text()


def test_an_endpoint_that_is_not_running_is_named_and_not_blamed(
    gatemark: Run, folder: Path
) -> None:
    target = (
        "{openai: {base_url: 'http://127.0.0.1:9/v1', model: m, prompt_file: prompts/sort.txt}, "
        "retries: 0}"
    )
    (folder / "pack.yaml").write_text(OWN_PACK.replace("CANDIDATE", target))
    ran = gatemark("run", "pack.yaml")
    assert ran.code == 3
    assert "unreachable: POST http://127.0.0.1:9/v1/chat/completions" in " ".join(ran.out.split())


def _command(folder: Path, program: str, more: str = "") -> None:
    (folder / "answer.py").write_text(program)
    command = f"{{command: ['{sys.executable}', answer.py]{more}}}"
    (folder / "pack.yaml").write_text(OWN_PACK.replace("CANDIDATE", command))


def test_a_program_of_their_own_is_gated(gatemark: Run, folder: Path) -> None:
    shown = snippet("how-to/call-a-model.md", "python", "flush=True")
    _command(folder, shown.replace('"billing"', 'str(call["input"])[-30:]'))
    assert gatemark("lint", "pack.yaml").code == 0
    ran = gatemark("run", "pack.yaml", "--limit", 4)
    assert ran.code == 1
    assert "golden.score must be >= 0.9, got 0.5" in ran.out


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys\nprint(sys.stdin.read())\n", "not at the end of the input"),
        (
            "import sys\nfor line in sys.stdin:\n    print('billing', flush=True)\n",
            "print one line per item",
        ),
    ],
)
def test_a_program_that_does_not_speak_lines_is_told_how(
    gatemark: Run, folder: Path, program: str, told: str
) -> None:
    _command(folder, program, ", timeout_s: 3")
    ran = gatemark("run", "pack.yaml", "--limit", 1)
    assert ran.code != 0
    assert told in " ".join(ran.out.split())


def test_production_traces_are_replayed(gatemark: Run, folder: Path) -> None:
    one = snippet("how-to/replay-traces.md", "json", "resourceSpans", "price of 4").splitlines()[0]
    traces = [
        one.replace('"01"', f'"{number:04x}"')
        .replace("of 4", f"of {number}")
        .replace("costs 4", f"costs {number}")
        for number in range(40)
    ]
    (folder / "traces.jsonl").write_text("\n".join(traces) + "\n")
    imported = gatemark(
        "import", "traces.jsonl", "--from", "otlp", "--answered", "-o", "recent.jsonl"
    )
    assert imported.code == 0, imported.err
    assert "40 accepted" in imported.out + imported.err
    app = snippet("how-to/replay-traces.md", "python", "It costs")
    (folder / "app.py").write_text(app + "\n\ndef rude(text):\n    return 'Ask somebody else'\n")
    pack = snippet("how-to/replay-traces.md", "yaml", "kind: replay")
    (folder / "pack.yaml").write_text(pack.replace('"app:answer"', '"app:rude"', 1))
    linted = gatemark("lint", "pack.yaml")
    assert linted.code == 0
    assert "can never be scored" not in linted.out + linted.err
    ran = gatemark("run", "pack.yaml")
    assert ran.code == 1, ran.out
    assert "recent.regression" in ran.out


def _own_service(request: Request) -> Answer:
    """A service with JSON of its own, as the page on calling a model shows."""
    text = request.body["question"]
    label = "delivery" if "parcel" in text else "other"
    return Answer({"result": {"label": "HARBOUR-77" if "HARBOUR-77" in text else label}})


def test_a_service_with_json_of_its_own_is_gated(gatemark: Run, folder: Path) -> None:
    shown = snippet("how-to/call-a-model.md", "yaml", "response: result.label")
    with serving(_own_service) as server:
        target = shown.replace("https://mail.example.org", server.url)
        target = target.replace(', customer: "{{sample.customer}}"', "")
        pack = OWN_PACK.partition("targets:")[0] + target
        (folder / "pack.yaml").write_text(pack)
        assert gatemark("lint", "pack.yaml").code == 0
        ran = gatemark("run", "pack.yaml", "-o", "report.md")
        assert ran.code == 1
        assert "golden.score must be >= 0.9, got 0.5" in ran.out
        told = (folder / "report.md").read_text()
        assert "| own-1 | prompt\\_injection | 1 | HARBOUR-77 |" in told
        (folder / "pack.yaml").write_text(pack.replace("result.label", "result.text"))
        wrong = gatemark("run", "pack.yaml", "--limit", 2)
        assert "reply has no result.text" in " ".join(wrong.out.split())
        (folder / "pack.yaml").write_text(pack.replace("prompt_file: prompts/sort.txt", ""))
        bare = gatemark("lint", "pack.yaml")
        assert bare.code == 2
        assert "add prompt or prompt_file beside the body" in bare.err


def _writers_and_their_judge(request: Request) -> Answer:
    """Two models that write, and one that prefers the longer of two texts."""
    model, text = request.body["model"], request.body["messages"][-1]["content"]
    if model == "judge-1":
        nonce = re.findall(r"<<<first ([0-9a-f]+)>>>", text)[0]
        lengths = [
            len(
                text.partition(f"<<<{side} {nonce}>>>")[2].partition(f"<<<end {side} {nonce}>>>")[0]
            )
            for side in ("first", "second")
        ]
        said = f"GRADE {nonce}: {'FIRST' if lengths[0] > lengths[1] else 'SECOND'}"
    else:
        said = "thanks" + " for your letter" * (model == "writer-2")
    return Answer({"model": model, "choices": [{"message": {"content": said}}]})


def test_a_judge_compares_as_the_page_shows(gatemark: Run, folder: Path) -> None:
    labelled = json.loads(snippet("how-to/run-a-pack.md", "json", '"second"'))
    short, long = labelled["output"]["first"], labelled["output"]["second"]
    rows = []
    for number in range(60):
        texts, label = ((short, long), "SECOND") if number % 2 else ((long, short), "FIRST")
        output = {"first": texts[0] + f" {number}", "second": texts[1] + f" {number}"}
        rows.append({**labelled, "id": f"p{number}", "output": output, "label": label})
    compared = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "data/compared-by-people.jsonl").write_text(compared)
    questions = [{"id": f"q{n}", "input": f"Thank reader {n}."} for n in range(60)]
    lines = "".join(json.dumps(row) + "\n" for row in questions)
    (folder / "data/questions.jsonl").write_text(lines)
    shown = snippet("how-to/run-a-pack.md", "yaml", "kind: preference")
    with serving(_writers_and_their_judge) as server:
        (folder / "pack.yaml").write_text(shown.replace("http://127.0.0.1:8000", server.url))
        linted = gatemark("lint", "pack.yaml", "--json")
        assert linted.json["errors"] == []
        ran = gatemark("run", "pack.yaml", "--json")
    assert ran.code == 0, ran.out + ran.err
    numbers = {(m["name"], m["scope"]): m["value"] for m in ran.json["measurements"]}
    assert numbers["wins", "preferred"] == 60
    assert numbers["order_disagreement_rate", "preferred"] == 0
