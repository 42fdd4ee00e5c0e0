"""Several candidates in one run: one table, a result for each, and no luck of the many."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.targets.rigs import Answer, Request, serving

from gatemark.release.lifecycle.pack_identity import identify_pack_file, identify_result_pack
from gatemark.workspace import Workspace

Run = Callable[..., Any]

ITEMS = 120
PACK = """
gatemark: 1
name: shouting
version: 1
asset: {kind: prompt, name: shouting}
score_min: 0.5
regression_max: 0.1
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 1.0, min: 0.5, dataset: golden.jsonl}
targets:
  candidate: {openai: {base_url: "URL/v1", model: small}, retries: 0}
  baseline: {openai: {base_url: "URL/v1", model: large, system_file: loud.txt}, retries: 0}
matrix:
  prompt:
    loud: {openai: {system_file: loud.txt}}
    lazy: {openai: {system_file: lazy.txt}}
  model:
    small: {openai: {model: small}}
    large: {openai: {model: large}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"r{n:03d}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(ITEMS)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "loud.txt").write_text("Shout.")
    (tmp_path / "lazy.txt").write_text("Shout if you like.")
    return tmp_path


def _shouting(request: Request) -> Answer:
    """The large model always shouts; the small one needs to be told so, and then forgets some."""
    system, user = (message["content"] for message in request.body["messages"])
    number = int(user.split()[1])
    is_small = request.body["model"] == "small"
    is_lazy = system != "Shout."
    wrong = is_small and (is_lazy or number % 2 == 0)
    text = user if wrong else user.upper()
    return Answer({"model": request.body["model"], "choices": [{"message": {"content": text}}]})


def _run(gatemark: Run, folder: Path, url: str, *more: object, pack: str = PACK) -> Any:
    (folder / "pack.yaml").write_text(pack.replace("URL", url))
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "-j", 8, *more)


def test_every_candidate_is_judged_and_sealed_and_the_worst_decides(
    gatemark: Run, folder: Path
) -> None:
    with serving(_shouting) as server:
        ran = _run(gatemark, folder, server.url, "--json")
        assert len(server.requests) == ITEMS * 5
    assert ran.code == 1, ran.err
    assert ran.json["schema"] == "gatemark.matrix/1"
    verdicts = {cell["name"]: cell["verdict"] for cell in ran.json["cells"]}
    assert verdicts == {
        "loud/small": "fail",
        "loud/large": "pass",
        "lazy/small": "fail",
        "lazy/large": "pass",
    }
    assert ran.json["verdict"] == "fail"
    assert ran.json["shared_cost"]["calls"] == ITEMS
    assert [cell["cost"]["calls"] for cell in ran.json["cells"]] == [ITEMS] * 4
    shown = gatemark("show", ran.json["cells"][1]["result"], "--store", folder / "store", "--json")
    assert shown.json["verdict"] == "pass"
    assert shown.json["runtime"]["matrix.cell"] == "prompt loud, model large"
    assert any("one of 4 candidates" in caveat for caveat in shown.json["caveats"])
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.out + checked.err


def test_one_candidate_can_be_enough(gatemark: Run, folder: Path) -> None:
    with serving(_shouting) as server:
        ran = _run(gatemark, folder, server.url, "--need", "any")
    assert ran.code == 0, ran.err
    assert "4 candidates: 2 pass, 2 fail; one is enough." in ran.out


def test_the_table_is_written_in_every_format(gatemark: Run, folder: Path) -> None:
    files = [folder / f"matrix.{ext}" for ext in ("md", "html", "json", "jsonl", "junit.xml")]
    outputs = [part for file in files for part in ("-o", file)]
    with serving(_shouting) as server:
        ran = _run(gatemark, folder, server.url, *outputs)
    assert ran.code == 1
    markdown, html, document, lines, junit = (file.read_text() for file in files)
    assert "| prompt | model | verdict | bench | drop |" in markdown
    assert "| lazy | small | FAIL |" in markdown
    assert "Tests allow for 4 candidates (Holm)" in markdown
    assert "<td>lazy</td><td>small</td><td>FAIL</td>" in html
    assert json.loads(document)["candidates"] == 4
    assert next(json.loads(line)["name"] for line in lines.splitlines()) == "loud/small"
    suite = ET.fromstring(junit)[0]
    assert [len(case) for case in suite] == [1, 0, 1, 0]


def test_an_outage_of_one_candidate_holds_that_one_and_resume_asks_only_it(
    gatemark: Run, folder: Path
) -> None:
    def small_is_down(request: Request) -> Answer:
        if request.body["model"] == "small":
            return Answer({"error": "overloaded"}, status=503)
        return _shouting(request)

    with serving(small_is_down) as server:
        url = server.url
        ran = _run(gatemark, folder, url, "--json", "--cell", "loud/small", "--cell", "loud/large")
        verdicts = [cell["verdict"] for cell in ran.json["cells"]]
        assert verdicts == ["inconclusive", "pass"]
        assert ran.code == 3
        assert "--resume asks those again" in ran.err
        asked = len(server.requests)
        again = gatemark(
            *("run", folder / "pack.yaml", "--store", folder / "store", "--json", "--resume"),
            *("--cell", "loud/small", "--cell", "loud/large", "-j", 8),
        )
        assert again.code == 3
        models = {request.body["model"] for request in server.requests[asked:]}
        assert models == {"small"}


def _recorded(folder: Path, name: str, lost: int) -> None:
    lines = []
    for number in range(ITEMS):
        text = f"say {number}" if number < lost else f"SAY {number}"
        lines.append({"schema": "gatemark.sample/1", "id": f"r{number:03d}", "output": text})
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


RECORDED = (
    PACK.partition("targets:")[0]
    + """targets:
  candidate: {recorded: best.jsonl}
  baseline: {recorded: best.jsonl}
"""
)
NEARLY = 6
"""Lost items with which a candidate alone just passes."""


def test_the_luckiest_of_several_does_not_pass_where_it_would_alone(
    gatemark: Run, folder: Path
) -> None:
    for name, lost in (("best", 0), ("near", NEARLY)):
        _recorded(folder, f"{name}.jsonl", lost)
    alone = RECORDED.replace("{recorded: best", "{recorded: near", 1)
    assert _run(gatemark, folder, "", pack=alone).code == 0
    two = alone + "matrix:\n  try: {first: {}, second: {}}\n"
    both = _run(gatemark, folder, "", "--json", pack=two)
    assert [cell["verdict"] for cell in both.json["cells"]] == ["inconclusive", "inconclusive"]
    assert [cell["level"] for cell in both.json["cells"]] == [0.025, 0.025]
    assert both.code == 3


def test_candidates_that_passed_leave_their_share_to_the_others(
    gatemark: Run, folder: Path
) -> None:
    for name, lost in (("best", 0), ("near", NEARLY)):
        _recorded(folder, f"{name}.jsonl", lost)
    mixed = RECORDED + "matrix:\n  try: {same: {}, near: {recorded: near.jsonl}}\n"
    ran = _run(gatemark, folder, "", "--json", pack=mixed)
    assert [cell["verdict"] for cell in ran.json["cells"]] == ["pass", "pass"]
    assert [cell["level"] for cell in ran.json["cells"]] == [0.025, 0.05]
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.out + checked.err


def test_candidates_tried_elsewhere_count_too(gatemark: Run, folder: Path) -> None:
    for name, lost in (("best", 0), ("near", NEARLY)):
        _recorded(folder, f"{name}.jsonl", lost)
    told = RECORDED.replace("{recorded: best", "{recorded: near", 1) + "candidates: 5\n"
    assert _run(gatemark, folder, "", pack=told).code == 3


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        ("{model: {}}", "matrix axis 'model' has no values"),
        ("{model: {big: {openai: {modle: x}}}}", "matrix big: unknown key 'modle'"),
    ],
)
def test_mistakes_in_a_matrix_are_named_with_their_line(
    gatemark: Run, folder: Path, matrix: str, problem: str
) -> None:
    pack = PACK.partition("matrix:")[0] + f"matrix: {matrix}\n"
    ran = _run(gatemark, folder, "http://127.0.0.1:9", pack=pack)
    assert ran.code == 2
    assert problem in ran.err


def test_options_that_do_not_fit_a_matrix_are_refused(gatemark: Run, folder: Path) -> None:
    unknown = _run(gatemark, folder, "http://127.0.0.1:9", "--cell", "loud/larg")
    assert unknown.code == 2
    assert "no candidate 'loud/larg'; did you mean 'loud/large'?" in unknown.err
    _recorded(folder, "near.jsonl", 0)
    named = _run(gatemark, folder, "http://127.0.0.1:9", "--candidate", folder / "near.jsonl")
    assert named.code == 2
    assert "choose candidates with --cell" in named.err


def test_lint_checks_every_candidate(gatemark: Run, folder: Path) -> None:
    pack = PACK.replace("lazy.txt", "gone.txt") + "    same: {openai: {model: large}}\n"
    (folder / "pack.yaml").write_text(pack.replace("URL", "http://127.0.0.1:9"))
    linted = gatemark("lint", folder / "pack.yaml")
    assert linted.code == 2
    assert "gone.txt" in linted.err + linted.out
    (folder / "gone.txt").write_text("Hm.")
    linted = gatemark("lint", folder / "pack.yaml")
    told = linted.out + linted.err
    assert "matrix loud/large is the same target as the baseline" in told
    assert "matrix loud/same is the same target as loud/large" in told


def test_a_candidate_of_a_matrix_took_the_required_pack(gatemark: Run, folder: Path) -> None:
    """A promotion compares what a result was judged by with the pack that was set."""
    for name, lost in (("best", 0), ("near", NEARLY)):
        _recorded(folder, f"{name}.jsonl", lost)
    mixed = RECORDED + "matrix:\n  try: {same: {}, near: {recorded: near.jsonl}}\n"
    ran = _run(gatemark, folder, "", "--json", pack=mixed)
    workspace = Workspace(store=str(folder / "store"))
    wanted = identify_pack_file(str(folder / "pack.yaml"))
    for cell in ran.json["cells"]:
        result = workspace.existing_results().get(cell["result"])
        assert identify_result_pack(result, workspace.blobs) == wanted
    (folder / "pack.yaml").write_text(RECORDED)
    assert identify_pack_file(str(folder / "pack.yaml")) == wanted
