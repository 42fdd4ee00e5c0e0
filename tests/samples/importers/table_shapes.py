"""Small logs of the same scripted task in the shapes of tables and of tools without real files."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    answer,
    dumped,
    item,
    promptfoo_log,
    right,
)


def csv_of(rows: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def plain_rows(every: int = BASELINE) -> list[dict[str, Any]]:
    return [
        {
            "question_id": item(n),
            "asked": f"{n}+{n}",
            "said": answer(n, every),
            "wanted": 2 * n,
            "correct": "yes" if right(n, every) else "no",
            "ms": 12.5,
            "lane": "odd" if n % 2 else "even",
        }
        for n in range(COUNT)
    ]


def ragas_rows(every: int = BASELINE) -> list[dict[str, Any]]:
    return [
        {
            "user_input": f"{n}+{n}",
            "retrieved_contexts": "['a', 'b']",
            "response": answer(n, every),
            "reference": str(2 * n),
            "faithfulness": 1.0 if right(n, every) else 0.0,
            "answer_relevancy": 0.5,
        }
        for n in range(COUNT)
    ]


def openai_events(every: int = BASELINE) -> list[dict[str, Any]]:
    spec = {
        "completion_fns": ["scripted"],
        "eval_name": "tiny.dev.v0",
        "base_eval": "tiny",
        "split": "dev",
        "run_config": {"seed": 1, "max_samples": None},
        "created_by": "",
        "run_id": "2611152200ABCDEF",
        "created_at": "2026-11-15 22:00:00",
    }
    events: list[dict[str, Any]] = [{"spec": spec}]
    for n in range(COUNT):
        common = {"run_id": spec["run_id"], "sample_id": f"tiny.dev.{n}", "created_by": ""}
        asked = {"prompt": f"{n}+{n}", "sampled": [answer(n, every)]}
        judged = {"correct": right(n, every), "expected": str(2 * n), "picked": answer(n, every)}
        events.append({**common, "event_id": 2 * n, "type": "sampling", "data": asked})
        events.append({**common, "event_id": 2 * n + 1, "type": "match", "data": judged})
    rate = sum(right(n, every) for n in range(COUNT)) / COUNT
    return [*events, {"final_report": {"accuracy": rate, "boostrap_std": 0.1}}]


def json_lines(rows: list[Any]) -> bytes:
    return b"".join(dumped(row) + b"\n" for row in rows)


def helm_stats(every: int = BASELINE, trials: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "instance_id": f"id{n}",
            "train_trial_index": trial,
            "stats": [
                {
                    "name": {"name": "exact_match", "split": "test"},
                    "count": 1,
                    "sum": float(right(n, every)),
                    "sum_squared": float(right(n, every)),
                    "mean": float(right(n, every)),
                },
                {"name": {"name": "num_bytes", "split": "test"}, "count": 2, "sum": 6},
            ],
        }
        for trial in range(trials)
        for n in range(COUNT)
    ]


def helm_state(every: int = BASELINE, failed: frozenset[int] = frozenset()) -> dict[str, Any]:
    return {
        "adapter_spec": {"method": "generation", "model": "scripted/one"},
        "request_states": [
            {
                "instance": {
                    "input": {"text": f"{n}+{n}"},
                    "references": [
                        {"output": {"text": str(2 * n)}, "tags": ["correct"]},
                        {"output": {"text": "never"}, "tags": []},
                    ],
                    "split": "test",
                    "id": f"id{n}",
                },
                "train_trial_index": 0,
                "request": {"model": "scripted/one"},
                "result": {"success": False, "completions": [], "error": "HTTP 500"}
                if n in failed
                else {
                    "success": True,
                    "completions": [{"text": answer(n, every), "logprob": 0, "tokens": []}],
                    "request_time": 0.25,
                },
            }
            for n in range(COUNT)
        ],
    }


def langfuse_items() -> list[dict[str, Any]]:
    return [
        {
            "id": item(n),
            "status": "ARCHIVED" if n == 3 else "ACTIVE",
            "input": json.dumps({"question": f"{n}+{n}"}),
            "expectedOutput": str(2 * n),
            "metadata": {"lane": "odd" if n % 2 else "even"},
            "sourceTraceId": f"trace-{n}",
            "datasetId": "d1",
            "datasetName": "tiny",
        }
        for n in range(COUNT)
    ]


def promptfoo_table(*, errors_as_text: bool = True) -> dict[str, Any]:
    """Version 2: a table with cells, rows without numbers, failures that include errors."""
    log = promptfoo_log()
    by_place = {(r["testIdx"], r["promptIdx"]): r for r in log["results"]["results"]}
    body = []
    for n in range(COUNT):
        outputs = []
        for column in (0, 1):
            row = by_place[n, column]
            crashed = row["failureReason"] == 2
            outputs.append(
                {
                    "pass": row["success"],
                    "score": row["score"],
                    "text": "HTTP 500" if crashed else row["response"]["output"],
                    "namedScores": row["namedScores"],
                    "gradingResult": row["gradingResult"],
                    "latencyMs": 3,
                }
            )
        test = {"description": item(n), "assert": by_place[n, 0]["testCase"]["assert"]}
        body.append({"outputs": outputs, "vars": [f"{n}+{n}"], "test": test})
    prompts = [
        {"raw": "{{question}}", "display": "{{question}}", "provider": name}
        for name in ("baseline", "candidate")
    ]
    stats = {"successes": 0, "failures": 0}
    for row in by_place.values():
        stats["successes" if row["success"] else "failures"] += 1
    bare = {"testIdx", "promptIdx", "failureReason", "testCase"}
    return {
        "version": 2,
        "timestamp": "2024-01-01T00:00:00Z",
        "results": [
            {k: v for k, v in row.items() if k not in bare} for row in log["results"]["results"]
        ],
        "stats": stats,
        "table": {"head": {"prompts": prompts, "vars": ["question"]}, "body": body},
    }


def promptfoo_first() -> dict[str, Any]:
    """Version 1: outputs are texts that begin with their verdict."""
    table = promptfoo_table()
    for row in table["table"]["body"]:
        row["outputs"] = [
            f"[{'PASS' if cell['pass'] else 'ERROR' if cell['text'] == 'HTTP 500' else 'FAIL'}] "
            f"{cell['text']}"
            for cell in row["outputs"]
        ]
        del row["test"]
    table["table"]["head"]["prompts"] = ["[baseline] {{question}}", "[candidate] {{question}}"]
    return {"version": 1, "table": table["table"], "stats": table["stats"], "results": []}


def promptfoo_csv() -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream)
    header = ["Description", "question"]
    for name in ("baseline", "candidate"):
        header += [f"[{name}] ask", "Status", "Score", "Named Scores", "Metric: correct"]
        header += ["Grader Reason", "Comment"]
    writer.writerow(header)
    rows = {(r["testIdx"], r["promptIdx"]): r for r in promptfoo_log()["results"]["results"]}
    for n in range(COUNT):
        cells = [item(n), f"{n}+{n}"]
        for column, every in ((0, BASELINE), (1, CANDIDATE)):
            row = rows[n, column]
            status = ("PASS", "FAIL", "ERROR")[row["failureReason"]]
            named = "" if status == "ERROR" else f"{row['score']:.2f}"
            text = "" if status == "ERROR" else answer(n, every)
            cells += [text, status, f"{row['score']:.2f}", "", named, "because", ""]
        writer.writerow(cells)
    return stream.getvalue().encode()
