"""A suite's template is what the target gets: items and probes reach the real prompt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PACK = """\
gatemark: 1
name: t
version: 1
asset: {{kind: prompt, name: t}}
score_min: 0
regression_max: 0.5
suites:
  - id: golden
    kind: golden
    weight: 0.5
    dataset: g.jsonl
    template: {golden}
  - id: probes
    kind: adversarial
    weight: 0.5
    dataset: builtin:probes_v1
    sample: {{n: 8}}
    template: {probes}
targets:
  candidate: {{python: "app:answer"}}
  baseline: none
"""
FIRST = """\
suites:
  - {id: first, kind: golden, weight: 0.5, dataset: g.jsonl}
"""
APP = """
import json, pathlib

def answer(value):
    with (pathlib.Path({folder!r}) / "seen.jsonl").open("a") as stream:
        stream.write(json.dumps(value) + "\\n")
    return "I cannot help with that."
"""


def written(folder: Path, *, golden: str, probes: str) -> Path:
    rows = [{"id": f"i{n}", "input": f"q{n}", "target": "a", "team": "blue"} for n in range(3)]
    (folder / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "app.py").write_text(APP.format(folder=str(folder)))
    path = folder / "pack.yaml"
    path.write_text(PACK.format(golden=golden, probes=probes))
    return path


def test_items_and_probes_arrive_as_the_template_says(gatemark: Run, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        golden='[{role: system, content: "{{sample.team}}"}, {role: user, content: "{{input}}"}]',
        probes='[{role: system, content: "blue"}, {role: user, content: "{{input.user}}"}]',
    )
    ran = gatemark("run", path, "--store", tmp_path / "store", "--json")
    assert ran.code in (0, 1, 3), ran.err
    seen = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    system = {"role": "system", "content": "blue"}
    assert seen[:3] == [[system, {"role": "user", "content": f"q{n}"}] for n in range(3)]
    assert len(seen) == 11
    assert all(one[0] == system and isinstance(one[1]["content"], str) for one in seen)
    # The record keeps the item's own input, so that results with other templates compare.
    assert gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store").code == 0


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ('"{{sample.target}}"', "pack.yaml:13: suite golden: template must not use sample.target"),
        ('"{{sample}}"', "must not use sample"),
        ('"{{input.user}}"', "template needs input.user, which id 'i0' does not have"),
        ('"Hello"', "template never uses the item"),
        ('"{{variables.x}} {{input}}"', "has no variables"),
        ('"{{inptu}}"', "unknown placeholder {{inptu}}"),
    ],
)
def test_a_template_that_cannot_work_is_refused_before_a_call(
    gatemark: Run, tmp_path: Path, template: str, complaint: str
) -> None:
    path = written(tmp_path, golden=template, probes='"{{input.user}}"')
    # Also when an earlier suite could be asked.
    path.write_text(
        path.read_text().replace("suites:\n", FIRST).replace("0.5\n    data", "0.25\n    data")
    )
    linted = gatemark("lint", path)
    assert linted.code == 2
    assert complaint in linted.err
    ran = gatemark("run", path, "--store", tmp_path / "store")
    assert ran.code == 2
    assert complaint.partition(": ")[2] in ran.err or complaint in ran.err
    assert not (tmp_path / "seen.jsonl").exists()
