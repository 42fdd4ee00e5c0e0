"""``gatemark init --from inspect``: the log's answers are the baseline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

from gatemark.core.errors import BadInputError
from gatemark.packs.convert.inspect import convert_log

Log = dict[str, Any]


def log(**changed: Any) -> Log:
    samples = [
        {
            "id": number,
            "epoch": 1,
            "input": [{"role": "user", "content": f"{number} + {number}?"}],
            "target": str(2 * number),
            "output": {"completion": f"It is {2 * number}."},
            "scores": {"includes": {"value": "C"}},
            "metadata": {"kind": "even" if number % 2 == 0 else "odd"},
        }
        for number in range(1, 6)
    ]
    return {
        "status": "success",
        "eval": {"task": "suite/sums", "model": "openai/gpt-4o-mini", "created": "2026-01-01"},
        "plan": {"steps": [{"solver": "generate"}]},
        "results": {"scores": [{"name": "includes", "scorer": "includes"}]},
        "samples": samples,
        **changed,
    }


def written(folder: Path, document: Log) -> str:
    path = folder / "sums.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_samples_answers_model_and_scorer_are_converted(tmp_path: Path) -> None:
    made = convert_log(written(tmp_path, log()))
    assert made.left_out == ()
    assert made.pack["name"] == "sums"
    assert made.pack["suites"][0]["scorer"] == "contains"
    assert made.pack["targets"]["baseline"] == {"recorded": "data/answers.jsonl"}
    assert made.pack["targets"]["candidate"]["openai"]["model"] == "gpt-4o-mini"
    first = json.loads(made.files["data/samples.jsonl"].splitlines()[0])
    assert first == {"id": "1", "input": "1 + 1?", "target": "2", "tags": {"kind": "odd"}}


def test_the_pack_lints_and_runs_on_the_log_itself(
    tmp_path: Path, gatemark: Callable[..., Ran]
) -> None:
    document = log()
    document["eval"]["model"] = "hf/own-model"
    folder = tmp_path / "evals"
    ran = gatemark("init", folder, "--from", "inspect", written(tmp_path, document))
    assert ran.code == 0, ran.err
    assert "the candidate is the log itself until you name your own target" in ran.err
    assert "no errors" in gatemark("lint", folder / "pack.yaml").out
    ran = gatemark("run", folder / "pack.yaml", "--store", tmp_path / "store", "--json")
    assert ran.code == 3, ran.err
    scores = {
        one["scope"]: one["value"] for one in ran.json["measurements"] if one["name"] == "score"
    }
    assert scores["tests"] == 1.0


def test_what_the_log_did_beside_asking_is_told(tmp_path: Path) -> None:
    document = log(
        plan={"steps": [{"solver": "use_tools"}, {"solver": "generate"}]},
        results={"scores": [{"name": "model_graded_qa", "scorer": "model_graded_qa"}]},
    )
    document["samples"][0]["error"] = {"message": "crashed"}
    made = convert_log(written(tmp_path, document))
    assert made.left_out == (
        "1 samples: errors, or further epochs",
        "solvers use_tools: the target is asked with the input alone",
        "scorers model_graded_qa: choose one, see gatemark scorers",
        "the scorer is 'normalised': equal but for case and punctuation",
    )


def test_a_multiple_choice_task_is_refused(tmp_path: Path) -> None:
    document = log()
    document["samples"][0]["choices"] = ["1", "2"]
    with pytest.raises(BadInputError, match="gate two logs of it: gatemark compare"):
        convert_log(written(tmp_path, document))
