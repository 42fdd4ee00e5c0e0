"""Small logs in the shapes of other tools, all of one scripted task.

The task has 20 items; an arm is wrong where the item number is a multiple of ``every``.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import zstandard

from gatemark.samples.importer import ForeignFile, Imported, ReadOptions, importers

COUNT = 20
BASELINE, CANDIDATE = 5, 4


def right(number: int, every: int) -> bool:
    return number % every != 0


def answer(number: int, every: int) -> str:
    return str(2 * number + (0 if right(number, every) else 1))


def item(number: int) -> str:
    return f"add-{number:03d}"


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def file_of(content: Any, name: str = "log.json") -> ForeignFile:
    return ForeignFile(name=name, data=content if isinstance(content, bytes) else dumped(content))


def read(tool: str, *contents: Any, name: str = "log.json", **options: Any) -> Imported:
    files = [one if isinstance(one, ForeignFile) else file_of(one, name) for one in contents]
    return importers().get(tool).read(files, ReadOptions(**options))


def inspect_sample(number: int, every: int, epoch: int = 1) -> dict[str, Any]:
    letter = "C" if right(number, every) else "I"
    return {
        "id": item(number),
        "epoch": epoch,
        "input": f"What is {number} + {number}?",
        "target": str(2 * number),
        "messages": [],
        "output": {"choices": [], "completion": answer(number, every)},
        "scores": {"match": {"value": letter, "answer": answer(number, every), "history": []}},
        "metadata": {"lane": "odd" if number % 2 else "even"},
        "events": [{"event": "model"}],
        "total_time": 0.25,
    }


def inspect_log(every: int = BASELINE, epochs: int = 1) -> dict[str, Any]:
    samples = [
        inspect_sample(number, every, epoch)
        for epoch in range(1, epochs + 1)
        for number in range(COUNT)
    ]
    wrong = sum(not right(number, every) for number in range(COUNT))
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "task": "tiny_arith",
            "model": "mock/model",
            "created": "2026-11-15T18:19:29+00:00",
            "config": {"epochs": epochs, "log_samples": True},
            "dataset": {"name": "tiny", "samples": COUNT, "sample_ids": [*map(item, range(COUNT))]},
            "packages": {"inspect_ai": "0.3.285"},
        },
        "results": {
            "total_samples": COUNT * epochs,
            "scores": [
                {
                    "name": "match",
                    "scorer": "match",
                    "scored_samples": COUNT,
                    "metrics": {"accuracy": {"name": "accuracy", "value": 1 - wrong / COUNT}},
                }
            ],
            "headline": {"scorer": "match", "score": "match", "metric": "accuracy"},
        },
        "samples": samples,
    }


def inspect_members(log: dict[str, Any]) -> dict[str, bytes]:
    header = {key: value for key, value in log.items() if key != "samples"}
    return {
        "_journal/start.json": dumped({"version": 2, "eval": log["eval"]}),
        **{
            f"samples/{sample['id']}_epoch_{sample['epoch']}.json": dumped(sample)
            for sample in log["samples"]
        },
        "header.json": dumped(header),
    }


def zipped(members: dict[str, bytes], method: int) -> bytes:
    """A ZIP written by hand: the standard library writes no method 93."""
    body, directory = b"", b""
    for name, content in members.items():
        packed = packed_by(content, method)
        fields = (20, 0, method, 0, 0x21, zlib.crc32(content), len(packed), len(content))
        local = struct.pack("<IHHHHHIIIHH", 0x04034B50, *fields, len(name), 0)
        central = struct.pack(
            "<IHHHHHHIIIHHHHHII", 0x02014B50, 20, *fields, len(name), 0, 0, 0, 0, 0, len(body)
        )
        directory += central + name.encode()
        body += local + name.encode() + packed
    sizes = (len(members), len(members), len(directory), len(body), 0)
    return body + directory + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, *sizes)


def packed_by(content: bytes, method: int) -> bytes:
    if method == 93:
        return zstandard.compress(content)
    if method == 8:
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(content) + packer.flush()
    return content


def lm_eval_rows(
    every: int = BASELINE, filters: tuple[str, ...] = ("strict", "loose")
) -> list[Any]:
    return [
        {
            "doc_id": number,
            "doc": {"id": item(number), "question": f"{number}+{number}"},
            "target": str(2 * number),
            "arguments": {"gen_args_0": {"arg_0": f"Q: {number}", "arg_1": {"until": ["\n"]}}},
            "resps": [[" " + answer(number, every)]],
            "filtered_resps": [answer(number, every)],
            "filter": name,
            "metrics": ["exact_match"],
            "doc_hash": f"{number:064x}",
            "exact_match": float(right(number, every) and name == "strict"),
        }
        for name in filters
        for number in range(COUNT)
    ]


def lm_eval_lines(rows: list[Any]) -> ForeignFile:
    return file_of(b"".join(dumped(row) + b"\n" for row in rows), "samples_tiny_gen.jsonl")


def lm_eval_results(every: int = BASELINE) -> dict[str, Any]:
    rate = sum(right(number, every) for number in range(COUNT)) / COUNT
    return {
        "results": {
            "tiny_gen": {
                "alias": "tiny_gen",
                "sample_len": COUNT,
                "exact_match,strict": rate,
                "exact_match_stderr,strict": "N/A",
                "exact_match,loose": 0.0,
            }
        },
        "configs": {
            "tiny_gen": {"metric_list": [{"metric": "exact_match", "aggregation": "mean"}]}
        },
        "n-shot": {"tiny_gen": 0},
        "n-samples": {"tiny_gen": {"original": COUNT, "effective": COUNT}},
        "config": {"limit": None},
        "task_hashes": {"tiny_gen": "ab" * 32},
        "model_name": "scripted",
        "lm_eval_version": "0.4.13",
    }


def promptfoo_row(number: int, column: int, every: int, *, crashed: bool = False) -> dict[str, Any]:
    passed = right(number, every) and not crashed
    grading = {"pass": passed, "score": float(passed), "namedScoreWeights": {"correct": 1}}
    return {
        "error": "HTTP 500" if crashed else None if passed else "Expected output to equal",
        "gradingResult": None if crashed else grading,
        "id": f"row-{column}-{number}",
        "latencyMs": 3,
        "namedScores": {} if crashed else {"correct": int(passed)},
        "prompt": {"raw": f"{number}+{number}", "label": "{{question}}"},
        "promptId": "d3bc",
        "promptIdx": column,
        "provider": {
            "id": f"scripted:{every}",
            "label": "baseline" if column == 0 else "candidate",
        },
        "response": {"error": "HTTP 500"} if crashed else {"output": answer(number, every)},
        "score": int(passed),
        "success": passed,
        "testCase": {
            "description": item(number),
            "assert": [{"type": "equals", "value": str(2 * number), "metric": "correct"}],
            "metadata": {"case_id": item(number)},
        },
        "testIdx": number,
        "vars": {"question": f"{number}+{number}"},
        "failureReason": 2 if crashed else 0 if passed else 1,
    }


def promptfoo_log(crashed: frozenset[int] = frozenset({7})) -> dict[str, Any]:
    arms = (BASELINE, CANDIDATE)
    rows = [
        promptfoo_row(number, column, arms[column], crashed=number in crashed)
        for number in range(COUNT)
        for column in ((0, 1) if number % 3 else (1, 0))
    ]
    columns = []
    for column in (0, 1):
        mine = [row for row in rows if row["promptIdx"] == column]
        passed = sum(row["success"] for row in mine)
        errors = sum(row["failureReason"] == 2 for row in mine)
        columns.append(
            {
                "provider": "baseline" if column == 0 else "candidate",
                "metrics": {
                    "score": passed,
                    "testPassCount": passed,
                    "testFailCount": COUNT - passed - errors,
                    "testErrorCount": errors,
                    "namedScores": {"correct": passed},
                    "namedScoresCount": {"correct": COUNT - errors},
                    "namedScoreWeights": {"correct": COUNT - errors},
                },
            }
        )
    return {
        "evalId": "eval-1",
        "results": {
            "version": 3,
            "prompts": columns,
            "results": rows,
            "stats": {
                "successes": sum(row["success"] for row in rows),
                "failures": sum(row["failureReason"] == 1 for row in rows),
                "errors": sum(row["failureReason"] == 2 for row in rows),
            },
        },
        "config": {"tests": [{"description": item(n)} for n in range(COUNT)], "env": {}},
        "metadata": {"promptfooVersion": "0.121.20"},
        "runtimeOptions": {"repeat": 1},
    }


def deepeval_log(every: int = BASELINE) -> dict[str, Any]:
    wrong = sum(not right(number, every) for number in range(COUNT))
    return {
        "testCases": [
            {
                "name": item(number),
                "input": f"{number}+{number}",
                "actualOutput": answer(number, every),
                "expectedOutput": str(2 * number),
                "completionTime": 0.01,
                "success": right(number, every),
                "metricsData": [
                    {
                        "name": "Exact",
                        "threshold": 1.0,
                        "success": right(number, every),
                        "score": float(right(number, every)),
                        "flaky": False,
                    }
                ],
                "order": number,
            }
            for number in range(COUNT)
        ],
        "conversationalTestCases": [],
        "metricsScores": [
            {"metric": "Exact", "scores": [], "passes": COUNT - wrong, "fails": wrong, "errors": 0}
        ],
        "identifier": "run-1",
        "hyperparameters": {"model": "scripted"},
        "testPassed": COUNT - wrong,
        "testFailed": wrong,
    }


def mlflow_rows(every: int = BASELINE, run: str = "run-a") -> list[dict[str, Any]]:
    return [
        {
            "trace_id": f"tr-{run}-{number}",
            "exact/value": right(number, every),
            "closeness/value": 1.0 if right(number, every) else 0.5,
            "closeness/rationale": "distance",
            "expected_response/value": str(2 * number),
            "trace": "{}",
            "state": "OK",
            "execution_duration": 12,
            "request": {"question": f"{number}+{number}"},
            "response": answer(number, every),
            "trace_metadata": {"mlflow.sourceRun": run},
            "tags": {"case_id": item(number), "mlflow.traceName": "predict"},
            "assessments": [
                {"assessment_name": "exact", "feedback": {"value": right(number, every)}},
                {
                    "assessment_name": "expected_response",
                    "expectation": {"value": str(2 * number)},
                },
            ],
        }
        for number in range(COUNT)
    ]


def pydantic_report(every: int = BASELINE, crashed: int | None = 13) -> dict[str, Any]:
    cases: list[dict[str, Any]] = [
        {
            "name": item(number),
            "inputs": f"{number}+{number}",
            "metadata": {"lane": "odd" if number % 2 else "even"},
            "expected_output": str(2 * number),
            "output": answer(number, every),
            "scores": {"closeness": {"value": 1.0 if right(number, every) else 0.5}},
            "labels": {"band": {"value": "exact" if right(number, every) else "off"}},
            "assertions": {"Equals": {"value": right(number, every)}},
            "task_duration": 0.006,
            "source_case_name": None,
            "evaluator_failures": [],
        }
        for number in range(COUNT)
        if number != crashed
    ]
    failure = {
        "name": item(crashed or 0),
        "inputs": "x",
        "expected_output": "y",
        "error_message": "RuntimeError: tool crashed",
        "error_stacktrace": "Traceback",
        "source_case_name": None,
    }
    return {
        "name": f"wrong{every}",
        "cases": cases,
        "failures": [] if crashed is None else [failure],
        "experiment_metadata": {"model": "scripted"},
        "dataset_name": "tiny",
    }


def lost_and_gained(base: Imported, cand: Imported, score: str) -> tuple[int, int, int]:
    """Pairs that both sides have, those lost and those gained."""
    left = {(s.id, s.epoch): s.scores[score] for s in base.samples if s.error is None}
    right_side = {(s.id, s.epoch): s.scores[score] for s in cand.samples if s.error is None}
    shared = left.keys() & right_side.keys()
    lost = sum(left[key] == 1 and right_side[key] == 0 for key in shared)
    gained = sum(left[key] == 0 and right_side[key] == 1 for key in shared)
    return len(shared), lost, gained
