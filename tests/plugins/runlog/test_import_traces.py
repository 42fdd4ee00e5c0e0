"""Conversations of other systems as traces, from the export to the metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.plugins.runlog.import_traces import make_case_name
from gatemark.plugins.runlog.traces.files import find_traces, read_trace

Run = Callable[..., Any]
T0 = 1_760_000_000_000


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def span(name: str, kind: str, parent: str | None, at: int, **more: str) -> dict[str, Any]:
    return {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": f"{name}-{at}",
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str((T0 + at) * 1_000_000),
        "endTimeUnixNano": str((T0 + at + 400) * 1_000_000),
        "attributes": [
            attribute("openinference.span.kind", kind),
            *(attribute(key.replace("__", "."), value) for key, value in more.items()),
        ],
    }


OTLP = {
    "resourceSpans": [
        {
            "scopeSpans": [
                {
                    "spans": [
                        span("team", "CHAIN", None, 0, output__value="done"),
                        span("planner", "AGENT", "team-0", 0),
                        span("chat", "LLM", "planner-0", 10, output__value="Look for a fever."),
                        span("search", "TOOL", "planner-0", 20, output__value="found"),
                        span("critic", "AGENT", "team-0", 500),
                        span("chat", "LLM", "critic-500", 510, output__value="And for a cough."),
                    ]
                }
            ]
        }
    ]
}
LANGFUSE = [
    {
        "id": f"o{at}",
        "trace_id": "t-1",
        "parent_observation_id": parent,
        "type": kind,
        "name": name,
        "start_time": f"2025-10-09T08:53:2{at}.000Z",
        "end_time": f"2025-10-09T08:53:2{at}.500Z",
        "output": output,
    }
    for at, (kind, name, parent, output) in enumerate(
        [
            ("SPAN", "team", None, None),
            ("AGENT", "planner", "o0", None),
            ("GENERATION", "chat", "o1", {"role": "assistant", "content": "Look for a fever."}),
            ("AGENT", "critic", "o0", None),
            ("GENERATION", "chat", "o3", [{"role": "assistant", "content": "And for a cough."}]),
        ]
    )
]


def message(kind: str, content: Any, name: str | None, ident: str) -> dict[str, Any]:
    return {"type": kind, "content": content, "name": name, "id": ident, "additional_kwargs": {}}


SAID = [
    message("human", "What is wrong?", None, "m0"),
    message("ai", [{"type": "text", "text": "Look for a fever."}], "planner", "m1"),
    message("tool", "found", "search", "m2"),
    message("ai", "And for a cough.", "critic", "m3"),
]
LANGGRAPH = [
    {
        "values": {"messages": SAID[:count]},
        "next": [],
        "config": {"configurable": {"thread_id": "thread 7", "checkpoint_ns": ""}},
        "metadata": {"step": count},
        "created_at": f"2025-10-09T08:53:2{count}.000000+00:00",
    }
    for count in (4, 3, 2, 1)
]
AUTOGEN = {
    "messages": [
        {
            "source": source,
            "models_usage": None,
            "metadata": {},
            "created_at": f"2025-10-09T08:53:2{at}.000Z",
            "content": content,
            "type": kind,
        }
        for at, (source, kind, content) in enumerate(
            [
                ("user", "TextMessage", "What is wrong?"),
                ("planner", "TextMessage", "Look for a fever."),
                ("planner", "ToolCallRequestEvent", [{"id": "1", "name": "search"}]),
                ("planner", "ToolCallExecutionEvent", [{"content": "found"}]),
                ("critic", "TextMessage", "And for a cough."),
            ]
        )
    ],
    "stop_reason": "done",
}
CREWAI = {
    "raw": "And for a cough.",
    "json_dict": None,
    "tasks_output": [
        {"description": "plan", "agent": "planner", "raw": "Look for a fever.", "summary": "p"},
        {"description": "judge", "agent": "critic", "raw": "And for a cough.", "summary": "j"},
    ],
    "token_usage": {"total_tokens": 9},
}
CREW_LOG = [
    {
        "timestamp": f"2025-10-09 08:53:2{at}",
        "task_name": task,
        "task": task,
        "agent": agent,
        "status": status,
        **({"output": text} if text else {}),
    }
    for at, (task, agent, status, text) in enumerate(
        [
            ("plan", "planner", "started", None),
            ("plan", "planner", "completed", "Look for a fever."),
            ("judge", "critic", "started", None),
            ("judge", "critic", "completed", "And for a cough."),
        ]
    )
]
EXPORTS = {
    "otlp": OTLP,
    "langfuse": LANGFUSE,
    "langgraph": LANGGRAPH,
    "autogen": AUTOGEN,
    "crewai": CREWAI,
}
AGENTS = [("planner", "Look for a fever."), ("critic", "And for a cough.")]


def imported(gatemark: Run, folder: Path, export: Any, *words: str) -> Any:
    path = folder / "export.json"
    path.write_text(json.dumps(export), encoding="utf-8")
    return gatemark("import", path, "--to", "traces", "-o", folder / "traces", *words)


def said(folder: Path) -> list[tuple[str, str]]:
    (path,) = find_traces(str(folder))
    return [(turn.agent_id, turn.text) for turn in read_trace(str(path)).trace.turns]


@pytest.mark.parametrize("tool", EXPORTS)
@pytest.mark.parametrize("named", [True, False])
def test_every_export_becomes_a_trace_of_what_was_said(
    tool: str, named: bool, gatemark: Run, tmp_path: Path
) -> None:
    words = ("--from", tool) if named else ()
    ran = imported(gatemark, tmp_path, EXPORTS[tool], *words, "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["tool"], ran.json["traces"]) == (tool, 1)
    found = said(tmp_path / "traces")
    assert [turn for turn in found if turn[0] != "user"] == AGENTS
    assert bool(ran.json["notes"]) == (tool == "crewai")


def test_the_times_of_a_trace_are_those_of_the_export(gatemark: Run, tmp_path: Path) -> None:
    imported(gatemark, tmp_path, LANGGRAPH)
    (path,) = find_traces(str(tmp_path / "traces"))
    trace = read_trace(str(path)).trace
    assert [delta.t_rel_ms for delta in trace.deltas] == [0, 1000, 3000]
    assert trace.meta.case_id.startswith("thread-7-")


def test_spans_keep_when_a_turn_began(gatemark: Run, tmp_path: Path) -> None:
    imported(gatemark, tmp_path, OTLP)
    (path,) = find_traces(str(tmp_path / "traces"))
    records = read_trace(str(path)).trace.records
    assert [record.t_rel_ms for record in records] == [-400, 0, 0, 100, 500, 500]


def test_the_log_of_a_crew_has_times(gatemark: Run, tmp_path: Path) -> None:
    ran = imported(gatemark, tmp_path, CREW_LOG, "--json")
    assert (ran.code, ran.json["tool"], ran.json["notes"]) == (0, "crewai", [])
    assert said(tmp_path / "traces") == AGENTS


@pytest.mark.parametrize("wrapper", ["data", "kwargs", "plain"])
def test_messages_of_langchain_come_in_several_wrappers(
    wrapper: str, gatemark: Run, tmp_path: Path
) -> None:
    names = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    wrapped: dict[str, Callable[[dict[str, Any]], Any]] = {
        "data": lambda one: {"type": one["type"], "data": one},
        "kwargs": lambda one: {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", names[one["type"]]],
            "kwargs": {key: value for key, value in one.items() if key != "type"},
        },
        "plain": lambda one: one,
    }
    export = {"messages": [wrapped[wrapper](one) for one in SAID]}
    assert imported(gatemark, tmp_path, export, "--from", "langgraph").code == 0
    assert said(tmp_path / "traces") == [("user", "What is wrong?"), *AGENTS]


def test_conversations_that_cannot_be_read_write_nothing(gatemark: Run, tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text(f"{json.dumps(AUTOGEN)}\n{json.dumps({'messages': []})}\n")
    words = ("import", path, "--to", "traces", "--from", "autogen", "-o", tmp_path / "traces")
    ran = gatemark(*words)
    assert ran.code == 2
    assert "export.jsonl:2: holds no messages in a shape that autogen exports" in ran.err
    assert not (tmp_path / "traces").exists()
    assert gatemark(*words, "--on-bad-line", "exclude").code == 0
    assert len(find_traces(str(tmp_path / "traces"))) == 1
    unknown = imported(gatemark, tmp_path, {"colour": "red"})
    assert unknown.code == 2
    assert "known: otlp, langfuse, langgraph, autogen, crewai" in unknown.err
    other = imported(gatemark, tmp_path, OTLP, "--from", "promptfoo")
    assert "only conversations become traces" in other.err
    samples = imported(gatemark, tmp_path, OTLP, "--take", "3")
    assert "--take applies to samples, not to traces" in samples.err


def test_names_of_cases_stay_where_they_can() -> None:
    assert make_case_name("5b8efff7-98_A") == "5b8efff7-98_A"
    assert make_case_name("thread 7") != make_case_name("thread-7")
    assert make_case_name("ü").startswith("case-")


def test_redaction_reaches_the_traces(gatemark: Run, tmp_path: Path) -> None:
    export = {"messages": [message("ai", "Mail anna@example.org now.", "planner", "m1")]}
    ran = imported(gatemark, tmp_path, export, "--redact", "--json")
    assert (ran.code, ran.json["redacted"]) == (0, 1)
    assert "anna@example.org" not in str(said(tmp_path / "traces"))


TERSE = """
variant_id: terse
trigger_policy: no_buffer
components:
  token_gate: {enabled: true, min_words: 2, max_words: 8}
  buffer_agent: {enabled: false}
summarizer: {history_k: 2}
"""


def test_anyones_agents_go_from_the_export_to_the_metrics(gatemark: Run, tmp_path: Path) -> None:
    assert imported(gatemark, tmp_path, LANGGRAPH).code == 0
    traces = tmp_path / "traces"
    made = gatemark("runlog", "manifest", traces, "--json")
    assert made.code == 0, made.err
    assert (made.json["cases"], made.json["turns"]) == (1, 3)
    assert gatemark("runlog", "validate", traces).code == 0
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "terse.yaml").write_text(TERSE)
    runs = tmp_path / "runs"
    ran = gatemark(
        *("runlog", "run", "--traces", traces, "--output", runs, "--configs", configs, "-j", 1)
    )
    assert ran.code == 0, ran.err
    checked = gatemark("runlog", "validate", runs / "terse", "--traces", traces)
    assert checked.code == 0, checked.err
    measured = gatemark(
        *("runlog", "metrics", "--runs", runs, "--traces", traces, "--configs", configs),
        *("--out", tmp_path / "metrics", "--judged", "terse", "--json"),
    )
    assert measured.code == 0, measured.err
    assert measured.json["variant"] == "terse"


def test_traces_of_several_runs_have_no_common_manifest(gatemark: Run, tmp_path: Path) -> None:
    imported(gatemark, tmp_path, LANGGRAPH)
    imported(gatemark, tmp_path, OTLP)
    ran = gatemark("runlog", "manifest", tmp_path / "traces")
    assert ran.code == 2
    assert "holds traces of several runs" in ran.err
