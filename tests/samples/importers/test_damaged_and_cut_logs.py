"""Logs that are cut, invalidated, pointers or oversized: said, and never passed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples.importers import peer_shapes as shapes

Run = Callable[..., Any]


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def right_log(created: str) -> dict[str, Any]:
    """An Inspect log over 200 items that are all right, without the list of their ids."""
    log = shapes.inspect_log(every=10**6)
    log["samples"] = [
        {
            **one,
            "id": f"{one['id']}-{n}",
            "input": f"{one['input']} (case {n})",
            "scores": {"match": {"value": "C"}},
        }
        for n in range(10)
        for one in log["samples"]
    ]
    log["eval"] |= {"created": created, "dataset": {"name": "tiny", "samples": 200}}
    log["results"] = {"total_samples": 200, "scores": []}
    return log


@pytest.mark.parametrize("cut", ["header", "dataset", "arm"])
def test_a_log_shorter_than_its_header_says_holds_and_names_the_gap(
    gatemark: Run, tmp_path: Path, cut: str
) -> None:
    base, cand = right_log("2026-11-15"), right_log("2026-11-16")
    for log in (base, cand):
        log["samples"] = log["samples"][:150]
        if cut == "dataset":
            log["results"] = None
    files = written(tmp_path / "a.json", base), written(tmp_path / "b.json", cand)
    arms = ("--base-arm", "1", "--cand-arm", "1") if cut == "arm" else ()
    ran = gatemark("compare", *files, *arms, "--json")
    assert ran.code == 3
    told = {
        "header": "total_samples: the log says 200, its rows give 150",
        "dataset": "the log has 150 of the 200 samples that its header counts",
        "arm": "the log has 150 of the 200 samples that its header counts",
    }
    assert told[cut] in "\n".join(ran.json["blockers"])


def test_a_whole_log_has_no_gap_and_a_limit_is_told_as_such(tmp_path: Path) -> None:
    log = right_log("2026-11-15")
    assert shapes.read("inspect", log).origin.partial == ()
    log["eval"]["config"]["epochs"] = 2
    assert shapes.read("inspect", log).origin.partial == (
        "the log has 200 of the 400 samples that its header counts",
    )
    log["eval"]["config"] |= {"epochs": 1, "limit": 100}
    log["samples"], log["results"] = log["samples"][:100], None
    (told,) = shapes.read("inspect", log).origin.partial
    assert "--limit 100" in told


def test_a_log_that_is_marked_as_invalidated_holds(gatemark: Run, tmp_path: Path) -> None:
    base, cand = right_log("2026-11-15"), right_log("2026-11-16")
    files = written(tmp_path / "a.json", base), written(tmp_path / "b.json", cand)
    assert gatemark("compare", *files).code == 0
    written(files[1], cand | {"invalidated": True})
    ran = gatemark("compare", *files, "--json")
    assert ran.code == 3
    assert "the log is marked as invalidated" in ran.json["reason"]
    assert gatemark("import", files[1], "-o", tmp_path / "b.jsonl").code == 0
    assert gatemark("compare", files[0], tmp_path / "b.jsonl").code == 3


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 53156\n"


@pytest.mark.parametrize("name", ["log.json", "log.eval", "samples.jsonl"])
def test_a_git_lfs_pointer_is_named(gatemark: Run, tmp_path: Path, name: str) -> None:
    file = written(tmp_path / name, POINTER)
    other = written(tmp_path / "other.json", right_log("2026-11-15"))
    for command in (("import", file), ("compare", other, file), ("compare", file, other)):
        ran = gatemark(*command)
        assert ran.code == 2
        assert "is a Git LFS pointer, not the file itself" in ran.err
        assert "git lfs pull" in ran.err


@pytest.mark.parametrize(
    ("field", "others"),
    [
        ("count", {"mean": None, "sum": 1}),
        ("sum", {"mean": None}),
        ("mean", {}),
        ("train_trial_index", {}),
    ],
)
@pytest.mark.parametrize("digits", [30, 400, 6000])
def test_huge_integers_of_helm_are_bad_input(
    gatemark: Run, tmp_path: Path, field: str, others: dict[str, Any], digits: int
) -> None:
    stat = {"name": {"name": "exact_match", "split": "test"}, "count": 1, "sum": 1, "mean": 1}
    stat |= others
    row: dict[str, Any] = {"instance_id": "id1", "train_trial_index": 0, "stats": [stat]}
    (row if field in row else stat)[field] = "HUGE"
    text = json.dumps([row]).replace('"HUGE"', "1" + "0" * digits)
    file = written(tmp_path / "per_instance_stats.json", text)
    imported = gatemark("import", file, "-o", tmp_path / "out.jsonl")
    ran = gatemark("compare", file, file)
    assert imported.code in (0, 2)
    assert ran.code in (2, 3)
    assert "internal error" not in imported.err + ran.err


def langfuse(keys: str) -> list[dict[str, Any]]:
    root = {
        "id": "o1",
        "trace_id": "t1",
        "type": "AGENT",
        "start_time": "2026-05-29T13:46:19.000Z",
        "end_time": "2026-05-29T13:46:21.500Z",
        "parent_observation_id": None,
        "name": "desk",
        "input": {"question": "What does it cost?"},
        "output": "4",
    }
    call = {
        **root,
        "id": "o2",
        "type": "GENERATION",
        "parent_observation_id": "o1",
        "name": "writer",
        "model": "small-3",
        "prompt_name": "p",
        "prompt_version": 3,
        "level": "ERROR",
        "status_message": "slow",
    }
    rows = [root, call]
    if keys == "snake":
        return [
            {("provided_model_name" if k == "model" else k): v for k, v in r.items()} for r in rows
        ]
    return [{_camel(k): v for k, v in row.items()} for row in rows]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@pytest.mark.parametrize("form", ["list", "lines", "page", "trace"])
def test_the_camel_case_export_of_langfuse_reads_as_the_other(
    gatemark: Run, tmp_path: Path, form: str
) -> None:
    rows = langfuse("camel")
    content: Any = {
        "list": rows,
        "lines": "\n".join(map(json.dumps, rows)) + "\n",
        "page": {"data": rows, "meta": {"page": 1, "limit": 50}},
        "trace": {"trace": {"id": "t1"}, "observations": rows},
    }[form]
    camel = written(tmp_path / "camel.json", content)
    snake = written(tmp_path / "snake.json", langfuse("snake"))
    found = []
    for file in (camel, snake):
        out = tmp_path / f"{file.stem}.jsonl"
        ran = gatemark("import", file, "-o", out)
        assert ran.code == 0, ran.err
        assert "langfuse" in ran.out
        found.append(out.read_text())
    assert found[0] == found[1]
    (sample,) = map(json.loads, found[0].splitlines())
    assert sample["latency_ms"] == 2500
    assert sample["tags"]["model"] == "small-3"


def test_a_folder_of_helm_stays_readable_after_a_huge_time(gatemark: Run, tmp_path: Path) -> None:
    stat = {"name": {"name": "exact_match", "split": "test"}, "count": 1, "sum": 1, "mean": 1}
    written(
        tmp_path / "per_instance_stats.json",
        [{"instance_id": "id1", "train_trial_index": 0, "stats": [stat]}],
    )
    state = {
        "instance": {"id": "id1", "input": {"text": 10**400}, "references": []},
        "train_trial_index": 0,
        "result": {"success": True, "completions": [{"text": "4"}], "request_time": 10**308},
    }
    written(tmp_path / "scenario_state.json", {"request_states": [state]})
    copy = shutil.copytree(tmp_path, tmp_path / "copy")
    ran = gatemark(
        "compare", tmp_path / "per_instance_stats.json", copy / "per_instance_stats.json"
    )
    assert ran.code in (2, 3)
    assert "internal error" not in ran.err
