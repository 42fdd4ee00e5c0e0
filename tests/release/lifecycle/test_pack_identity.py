from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gatemark.cli.main import main
from gatemark.packs.init import write_starter
from gatemark.release.lifecycle.model.nouns import PackIdentity
from gatemark.release.lifecycle.pack_identity import identify_pack_file, identify_result_pack
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
    of_record = identify_pack_file(str(evals / "evals" / "pack.yaml"))
    assert of_record.definition is not None
    assert identify_result_pack(workspace.results.get(result_id), workspace.blobs) == of_record
    workspace.store.close()


def test_who_answers_is_no_part_of_the_exam(evals: Path) -> None:
    other = rewritten(evals, lambda text: text.replace("sorter:candidate", "sorter:baseline"))
    assert identify_pack_file(other) == identify_pack_file(str(evals / "evals" / "pack.yaml"))


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
    changed = identify_pack_file(rewritten(evals, lambda text: text.replace(word, other)))
    assert changed != identify_pack_file(str(evals / "evals" / "pack.yaml"))


def test_newer_data_of_a_replay_suite_is_the_same_exam(evals: Path) -> None:
    data = evals / "evals" / "data"
    lines = (data / "recent.jsonl").read_text().splitlines(keepends=True)
    (data / "newer.jsonl").write_text("".join(lines[:-1]))
    newer = rewritten(evals, lambda text: text.replace("data/recent.jsonl", "data/newer.jsonl"))
    assert identify_pack_file(newer) == identify_pack_file(str(evals / "evals" / "pack.yaml"))


def sealed(evals: Path, pack: str, *more: str, codes: tuple[int, ...] = (0,)) -> PackIdentity:
    """The required pack that a new result of a pack file is of."""
    out = evals / "again.json"
    ran = main(["run", pack, "--store", str(evals / "store"), "-o", str(out), *more])
    assert ran in codes
    workspace = Workspace(store=str(evals / "store"))
    result = workspace.results.get(json.loads(out.read_text())["id"])
    found = identify_result_pack(result, workspace.blobs)
    workspace.store.close()
    return found


def test_how_a_run_went_is_no_part_of_the_required_pack(evals: Path) -> None:
    """Reused answers are a condition in the policy of a result; its required pack is the same."""
    wanted = identify_pack_file(str(evals / "evals" / "pack.yaml"))
    pack = rewritten(
        evals,
        lambda text: text.replace('candidate"}', 'candidate", files: []}').replace(
            'baseline"}', 'baseline", files: []}'
        ),
    )
    assert sealed(evals, pack, "--cache") == wanted
    assert sealed(evals, pack, "--cache") == wanted
    settings = json.loads((evals / "again.json").read_text())["policy"]["settings"]
    assert "run.cached" in settings
    waivers = evals / "waivers.yaml"
    waivers.write_text(
        "- {rule: golden.floor, owner: ann, reason: hurry, expires_at: 2099-01-01T00:00:00Z}\n"
    )
    assert sealed(evals, pack, "--waivers", str(waivers)) == wanted


def test_the_number_of_candidates_is_no_part_of_the_required_pack(evals: Path) -> None:
    pack = str(evals / "evals" / "pack.yaml")
    others = rewritten(evals, lambda text: f"{text}\ncandidates: 5\n")
    assert identify_pack_file(others) == identify_pack_file(pack)


def test_the_look_that_settled_a_run_is_no_part_of_the_required_pack(evals: Path) -> None:
    pack = rewritten(
        evals,
        lambda text: f"{text}\nadaptive: {{looks: 3}}\n".replace("version: 1", "version: 2"),
    )
    assert sealed(evals, pack, codes=(0, 3)) == identify_pack_file(pack)
    settings = json.loads((evals / "again.json").read_text())["policy"]["settings"]
    assert "look" in settings


def test_a_limited_run_is_not_of_the_required_pack(evals: Path) -> None:
    pack = str(evals / "evals" / "pack.yaml")
    limited = sealed(evals, pack, "--limit", "5", codes=(1, 3))
    assert limited.policy != identify_pack_file(pack).policy


def test_a_run_without_the_baseline_is_not_of_the_required_pack(evals: Path) -> None:
    def alone(text: str) -> str:
        return text.replace('baseline: {python: "sorter:baseline"}', "baseline: none")

    other = rewritten(evals, alone)
    assert (
        identify_pack_file(other).policy
        != identify_pack_file(str(evals / "evals" / "pack.yaml")).policy
    )
