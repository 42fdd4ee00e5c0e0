"""What an answer took, where a tool writes it down: money, tokens and time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def _imported(gatemark: Run, folder: Path, name: str, log: object) -> list[dict[str, Any]]:
    path = folder / name
    path.write_text(json.dumps(log))
    out = folder / "samples.jsonl"
    ran = gatemark("import", path, "-o", out)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_deepeval(gatemark: Run, tmp_path: Path) -> None:
    case = {
        "name": "one",
        "input": "a",
        "actualOutput": "b",
        "success": True,
        "metricsData": [{"name": "Exact", "score": 1.0, "success": True}],
        "tokenCost": 0.02,
        "inputTokenCount": 10,
        "outputTokenCount": 5,
        "completionTime": 0.5,
    }
    unknown = {**case, "name": "two", "input": "c", "tokenCost": None, "outputTokenCount": None}
    log = {"testRunData": {"testCases": [case, unknown], "conversationalTestCases": []}}
    first, second = _imported(gatemark, tmp_path, ".latest_test_run.json", log)
    assert (first["cost"], first["tokens"], first["latency_ms"]) == (0.02, 15, 500.0)
    assert "cost" not in second
    assert "tokens" not in second  # half of a count is not a count


def test_the_latest_run_of_deepeval_is_read_once(gatemark: Run, tmp_path: Path) -> None:
    run = {
        "testCases": [
            {
                "name": "one",
                "input": "a",
                "actualOutput": "b",
                "success": True,
                "metricsData": [{"name": "Exact", "score": 1.0, "success": True}],
            }
        ],
        "conversationalTestCases": [],
    }
    folder = tmp_path / ".deepeval"
    folder.mkdir()
    (folder / ".latest_test_run.json").write_text(json.dumps({"testRunData": run}))
    (folder / ".latest_run_full.json").write_text(json.dumps(run))
    out = tmp_path / "samples.jsonl"
    assert gatemark("import", folder, "-o", out).code == 0
    assert len(out.read_text().splitlines()) == 1


@pytest.mark.parametrize("cached", [False, True])
def test_promptfoo(gatemark: Run, tmp_path: Path, cached: bool) -> None:
    row = {
        "testIdx": 0,
        "promptIdx": 0,
        "success": True,
        "score": 1,
        "provider": {"id": "echo"},
        "prompt": {"raw": "say {{x}}", "label": "say"},
        "vars": {"x": "a"},
        "testCase": {"vars": {"x": "a"}},
        "response": {"output": "a", "cached": cached},
        "latencyMs": 40,
        "cost": 0.001,
        "tokenUsage": {"total": 12, "prompt": 10, "completion": 2},
    }
    log = {"evalId": "e", "results": {"version": 3, "results": [row], "prompts": []}}
    (sample,) = _imported(gatemark, tmp_path, "pf.json", log)
    expected = (None, None, None) if cached else (0.001, 12, 40.0)
    assert (sample.get("cost"), sample.get("tokens"), sample["latency_ms"]) == expected


def test_pydantic_evals(gatemark: Run, tmp_path: Path) -> None:
    case = {
        "name": "one",
        "inputs": "a",
        "output": "b",
        "scores": {},
        "labels": {},
        "assertions": {"right": {"name": "right", "value": True}},
        "task_duration": 0.1,
        "total_duration": 0.2,
        "metrics": {"cost": 0.5, "input_tokens": 7, "output_tokens": 3},
        "attributes": {},
        "evaluator_failures": [],
    }
    log = {"name": "r", "cases": [case], "failures": []}
    (sample,) = _imported(gatemark, tmp_path, "report.json", log)
    assert (sample["cost"], sample["tokens"], sample["latency_ms"]) == (0.5, 10, 100.0)


def test_ragas_columns_of_a_sample_are_no_metrics(gatemark: Run, tmp_path: Path) -> None:
    rows = [
        {
            "user_input": "a",
            "response": "b",
            "reference": "b",
            "retrieved_context_ids": ["d1"],
            "reference_context_ids": ["d1"],
            "persona_name": "sailor",
            "query_style": "short",
            "query_length": "short",
            "faithfulness": 0.5,
        }
    ]
    (sample,) = _imported(gatemark, tmp_path, "ragas.json", rows)
    assert sample["scores"] == {"faithfulness": 0.5}
