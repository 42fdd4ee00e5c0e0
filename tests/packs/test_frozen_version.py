"""The name and version of a pack stand for one content in a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PACK = """\
gatemark: 1
name: greeting
version: 1
asset: {kind: prompt, name: greeting}
score_min: 0.9
regression_max: 0.2
suites:
  - {id: golden, kind: golden, weight: 1.0, dataset: golden.jsonl, scorer: contains}
targets:
  candidate: {python: "app:wrong"}
  baseline: none
"""
APP = "def right(name):\n    return name\n\ndef wrong(name):\n    return '?'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _write_rows(tmp_path, 30)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def _write_rows(folder: Path, count: int) -> None:
    rows = [{"id": f"r{n}", "input": f"n{n}", "target": f"n{n}"} for n in range(count)]
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _run(gatemark: Run, folder: Path, *options: object, **changes: str) -> Any:
    text = PACK
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "pack.yaml").write_text(text)
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json", *options)


def _edited(gatemark: Run, folder: Path, old: str, new: str, *options: object) -> Any:
    return _run(gatemark, folder, *options, **{old: new})


def test_a_loosened_pack_needs_another_version(gatemark: Run, folder: Path) -> None:
    failed = _run(gatemark, folder)
    assert failed.code == 1
    loosened = _edited(gatemark, folder, "score_min: 0.9", "score_min: 0.0")
    assert loosened.code == 2
    (line,) = loosened.err.splitlines()
    assert "pack.yaml:3: version 1 of pack greeting already has a result" in line
    assert failed.json["id"][7:19] in line
    assert "changed since: score_min. Set version: 2" in line
    bumped = _run(
        gatemark, folder, **{"score_min: 0.9": "score_min: 0.0", "version: 1": "version: 2"}
    )
    assert bumped.code == 0, bumped.err


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("scorer: contains", "scorer: exact", "suite golden"),
        ("weight: 1.0", "weight: 1.0, errors_max: 1.0", "suite golden"),
    ],
)
def test_what_decides_is_content(
    gatemark: Run, folder: Path, old: str, new: str, named: str
) -> None:
    _run(gatemark, folder)
    changed = _edited(gatemark, folder, old, new)
    assert changed.code == 2
    assert f"changed since: {named}. " in changed.err


def test_a_baseline_may_be_added_and_not_removed(gatemark: Run, folder: Path) -> None:
    _run(gatemark, folder)
    assert _edited(gatemark, folder, "baseline: none", 'baseline: {python: "app:wrong"}').code == 1
    removed = _run(gatemark, folder)
    assert removed.code == 2
    assert "changed since: targets.baseline. " in removed.err


def test_the_data_is_content(gatemark: Run, folder: Path) -> None:
    _run(gatemark, folder)
    _write_rows(folder, 20)
    changed = _run(gatemark, folder)
    assert changed.code == 2
    assert "changed since: golden.jsonl. " in changed.err


def test_who_answers_is_not_content(gatemark: Run, folder: Path) -> None:
    assert _run(gatemark, folder).code == 1
    assert _edited(gatemark, folder, "app:wrong", "app:right").code == 0


def test_limited_and_debugging_runs_freeze_nothing_and_limited_ones_are_free(
    gatemark: Run, folder: Path
) -> None:
    _run(gatemark, folder, "--limit", "5")
    _edited(gatemark, folder, '{python: "app:wrong"}', '{python: "app:wrong", in_process: true}')
    assert _edited(gatemark, folder, "score_min: 0.9", "score_min: 0.8").code == 1
    tried = _edited(gatemark, folder, "score_min: 0.9", "score_min: 0.7", "--limit", "5")
    assert tried.code == 1
    assert _edited(gatemark, folder, "score_min: 0.9", "score_min: 0.7").code == 2


def test_judging_again_by_other_rules_works_and_freezes_nothing(
    gatemark: Run, folder: Path
) -> None:
    failed = _run(gatemark, folder).json["id"]
    other = folder / "other.yaml"
    other.write_text(PACK.replace("score_min: 0.9", "score_min: 0.0"))
    again = gatemark("gate", failed, "--pack", other, "--store", folder / "store", "--json")
    assert again.code == 0, again.err
    assert again.json["runtime"]["judged_again"] == failed
    assert _run(gatemark, folder).code == 1
    assert gatemark("run", other, "--store", folder / "store").code == 2


def test_another_store_or_another_asset_is_free(gatemark: Run, folder: Path) -> None:
    _run(gatemark, folder)
    changes = {"score_min: 0.9": "score_min: 0.0"}
    assert _run(gatemark, folder, "--store", folder / "other", **changes).code == 0
    assert (
        _run(gatemark, folder, **changes, **{"prompt, name: greeting": "prompt, name: x"}).code == 0
    )


def test_recent_traffic_of_a_replay_suite_may_be_newer(gatemark: Run, folder: Path) -> None:
    replay = "kind: replay, weight: 1.0, dataset: recent.jsonl}"
    golden = "kind: golden, weight: 1.0, dataset: golden.jsonl, scorer: contains}"
    snapshots = []
    for count in (30, 20):
        rows = [{"id": f"r{n}", "input": f"n{n}", "output": f"n{n}"} for n in range(count)]
        (folder / "recent.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        ran = _run(gatemark, folder, **{golden: replay, "app:wrong": "app:right"})
        assert ran.code != 2, ran.err
        snapshots.append(ran.json["snapshots"])
    assert snapshots[0] != snapshots[1]


def test_the_code_of_a_scorer_belongs_to_the_version(gatemark: Run, folder: Path) -> None:
    (folder / "grader.py").write_text("def grade(item):\n    return item.output == item.target\n")
    own = "scorer: {name: python, options: {function: 'grader:grade'}}"
    assert _edited(gatemark, folder, "scorer: contains", own).code == 1
    assert _edited(gatemark, folder, "scorer: contains", own).code == 1
    (folder / "grader.py").write_text("def grade(item):\n    return 1.0\n")
    loosened = _edited(gatemark, folder, "scorer: contains", own)
    assert loosened.code == 2
    assert "changed since: code of the scorer of golden. Set version: 2" in loosened.err


def test_the_labels_of_a_judge_belong_to_the_version(gatemark: Run, folder: Path) -> None:
    def write_labels(count: int) -> None:
        row = {"input": "n1", "output": "n1", "label": "CORRECT"}
        rows = [{"id": f"l{n}", **row} for n in range(count)]
        (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    (folder / "judging.py").write_text("def judge(prompt):\n    return 'no grade'\n")
    judged = (
        "judges:\n  grader: {target: {python: 'judging:judge'}, labels: labels.jsonl}\ntargets:"
    )
    changes = {
        "scorer: contains": "scorer: {name: judge, judge: grader}",
        "targets:": judged,
    }
    write_labels(60)
    assert _run(gatemark, folder, **changes).code == 3
    write_labels(61)
    changed = _run(gatemark, folder, **changes)
    assert changed.code == 2
    assert "changed since: labels of judge grader. Set version: 2" in changed.err
