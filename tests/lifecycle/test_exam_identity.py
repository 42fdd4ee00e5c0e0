from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gatemark.cli.main import main
from gatemark.lifecycle.exam_identity import exam_of, exam_of_pack
from gatemark.packs.init import write_starter
from gatemark.workspace import Workspace

LAX = "scorer: {name: regex, options: {pattern: '.*'}}"


@pytest.fixture(scope="module")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the starter pack and a sealed result of it."""
    folder = tmp_path_factory.mktemp("evals")
    write_starter(folder / "evals")
    store = ["--store", str(folder / "store"), "-o", str(folder / "r.json")]
    assert main(["run", str(folder / "evals" / "pack.yaml"), *store]) == 0
    return folder


def rewritten(evals: Path, change: Callable[[str], str]) -> str:
    text = (evals / "evals" / "pack.yaml").read_text()
    changed = change(text)
    assert changed != text
    path = evals / "evals" / "changed.yaml"
    path.write_text(changed)
    return str(path)


def test_a_result_sat_the_exam_of_its_pack(evals: Path) -> None:
    result_id = json.loads((evals / "r.json").read_text())["id"]
    workspace = Workspace(store=str(evals / "store"))
    of_record = exam_of_pack(str(evals / "evals" / "pack.yaml"))
    assert of_record.definition is not None
    assert exam_of(workspace.results.get(result_id), workspace.blobs) == of_record
    workspace.store.close()


def test_who_answers_is_no_part_of_the_exam(evals: Path) -> None:
    other = rewritten(evals, lambda text: text.replace("sorter:candidate", "sorter:baseline"))
    assert exam_of_pack(other) == exam_of_pack(str(evals / "evals" / "pack.yaml"))


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("scorer: exact, slices", f"{LAX}, slices"),
        ('dataset: "builtin:probes_v1"', 'dataset: "builtin:probes_v1", reruns: 3, fails_at: 3'),
        ("from: golden", "from: golden, options: {bins: 3}"),
        ("weight: 0.1, from: golden", "weight: 0.1, from: probes"),
    ],
)
def test_asking_or_scoring_otherwise_is_another_exam(evals: Path, word: str, other: str) -> None:
    changed = exam_of_pack(rewritten(evals, lambda text: text.replace(word, other)))
    assert changed != exam_of_pack(str(evals / "evals" / "pack.yaml"))


def test_newer_data_of_a_replay_suite_is_the_same_exam(evals: Path) -> None:
    data = evals / "evals" / "data"
    lines = (data / "recent.jsonl").read_text().splitlines(keepends=True)
    (data / "newer.jsonl").write_text("".join(lines[:-1]))
    newer = rewritten(evals, lambda text: text.replace("data/recent.jsonl", "data/newer.jsonl"))
    assert exam_of_pack(newer) == exam_of_pack(str(evals / "evals" / "pack.yaml"))
