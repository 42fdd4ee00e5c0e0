"""Exports that would lose, mix up or reorder what was said: each is kept whole, or refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.runlog.test_import_traces import (
    AGENTS,
    AUTOGEN,
    LANGFUSE,
    TERSE,
    attribute,
    imported,
    message,
    said,
    span,
)

from gatemark.plugins.runlog.traces.files import find_traces, read_trace

Run = Callable[..., Any]
Turns = list[tuple[str, str]]
EARLY, LATE = "2025-10-09T08:53:20+00:00", "2025-10-09T08:53:30+00:00"
FEVER, COUGH = message("ai", "Fever.", "planner", "m1"), message("ai", "Cough.", "critic", "m2")


def state(*messages: dict[str, Any], thread: object = "t7", at: object = EARLY) -> dict[str, Any]:
    """A state of LangGraph."""
    return {
        "values": {"messages": list(messages)},
        "config": {"configurable": {"thread_id": thread}},
        "created_at": at,
    }


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def traced(folder: Path) -> dict[str, Turns]:
    found = (read_trace(str(path)).trace for path in find_traces(str(folder / "traces")))
    return {one.meta.case_id: [(turn.agent_id, turn.text) for turn in one.turns] for one in found}


def times(folder: Path) -> list[int]:
    (path,) = find_traces(str(folder / "traces"))
    return [delta.t_rel_ms for delta in read_trace(str(path)).trace.deltas]


def refused(ran: Any, folder: Path, *words: str) -> None:
    assert ran.code == 2
    for word in words:
        assert word in ran.err
    assert not (folder / "traces").exists()


def test_threads_whose_ids_look_alike_stay_apart(gatemark: Run, tmp_path: Path) -> None:
    threads = ("thread 7", "thread  7", "thread-7", "thread-7 ", "Thread-7", "THREAD-7", "thread_7")
    export = [
        state(message("ai", f"Case {at}.", "planner", "m1"), thread=thread)
        for at, thread in enumerate(threads)
    ]
    ran = imported(gatemark, tmp_path, export)
    assert ran.code == 0, ran.err
    found = traced(tmp_path)
    assert sorted(found.values()) == [[("planner", f"Case {at}.")] for at in range(len(threads))]
    assert gatemark("runlog", "manifest", tmp_path / "traces", "--json").json["cases"] == 7


def test_two_messages_with_one_id_are_two_turns(gatemark: Run, tmp_path: Path) -> None:
    """Attack: the sentence that nobody should see has the id of a harmless one."""
    other = message("ai", "Give him poison.", "critic", "m1")
    assert imported(gatemark, tmp_path, [state(FEVER, other, FEVER)]).code == 0
    assert said(tmp_path / "traces") == [("planner", "Fever."), ("critic", "Give him poison.")]


def test_a_message_that_was_changed_later_is_kept_in_both_forms(
    gatemark: Run, tmp_path: Path
) -> None:
    changed = message("ai", "No fever.", "planner", "m1")
    assert imported(gatemark, tmp_path, [state(changed, at=LATE), state(FEVER)]).code == 0
    assert said(tmp_path / "traces") == [("planner", "Fever."), ("planner", "No fever.")]
    assert times(tmp_path) == [0, 10_000]


def test_messages_without_ids_are_not_lost_when_a_history_is_trimmed(
    gatemark: Run, tmp_path: Path
) -> None:
    first, second = ({**one, "id": None} for one in (FEVER, COUGH))
    assert imported(gatemark, tmp_path, [state(second, at=LATE), state(first)]).code == 0
    assert said(tmp_path / "traces") == [("planner", "Fever."), ("critic", "Cough.")]


@pytest.mark.parametrize("order", [1, -1])
def test_a_history_may_begin_with_its_oldest_state(
    order: int, gatemark: Run, tmp_path: Path
) -> None:
    states = [state(FEVER), state(FEVER, COUGH, at=LATE)][::order]
    assert imported(gatemark, tmp_path, states).code == 0
    assert said(tmp_path / "traces") == [("planner", "Fever."), ("critic", "Cough.")]
    assert times(tmp_path) == [0, 10_000]


def test_times_that_run_backwards_are_told(gatemark: Run, tmp_path: Path) -> None:
    export = copy.deepcopy(AUTOGEN)
    export["messages"][1]["created_at"] = "2030-01-01T00:00:00Z"  # type: ignore[index]
    ran = imported(gatemark, tmp_path, export, "--json")
    assert ran.code == 0
    (note,) = ran.json["notes"]
    assert note.startswith("the times of 1 of 1 conversations run backwards")
    assert said(tmp_path / "traces") == [("user", "What is wrong?"), AGENTS[1], AGENTS[0]]


@pytest.mark.parametrize(
    "at", [None, "yesterday", "", {}, True, -5, 0, 1e15, 1e300, 10**18, "0001-01-01T00:00:00Z"]
)
def test_a_time_that_is_none_is_told_and_keeps_the_order(
    at: object, gatemark: Run, tmp_path: Path
) -> None:
    ran = imported(gatemark, tmp_path, [state(FEVER, COUGH, at=at)], "--json")
    assert ran.code == 0, ran.err
    assert ran.json["notes"][0].startswith("1 of 1 conversations lack times")
    assert said(tmp_path / "traces") == [("planner", "Fever."), ("critic", "Cough.")]
    assert times(tmp_path) == [0, 1000]


SAYS = span("chat", "LLM", "planner-0", 10, output__value="Fever.")
TIMES = ("startTimeUnixNano", "endTimeUnixNano")


def test_spans_without_times_are_told(gatemark: Run, tmp_path: Path) -> None:
    other = span("chat", "LLM", "planner-0", 20, output__value="Cough.")
    untimed = [{k: v for k, v in one.items() if k not in TIMES} for one in (SAYS, other)]
    ran = imported(gatemark, tmp_path, otlp(*untimed), "--json")
    assert ran.json["notes"][0].startswith("1 of 1 conversations lack times")
    assert said(tmp_path / "traces") == [("chat", "Fever."), ("chat", "Cough.")]


def test_a_repeated_span_is_one_turn_and_two_spans_under_one_id_are_refused(
    gatemark: Run, tmp_path: Path
) -> None:
    other = span("chat", "LLM", "planner-0", 10, output__value="Cough.")
    refused(imported(gatemark, tmp_path, otlp(SAYS, other)), tmp_path, "has two spans 'chat-10'")
    rows = copy.deepcopy(LANGFUSE)
    rows[4]["id"] = "o2"
    refused(imported(gatemark, tmp_path, rows), tmp_path, "has two spans 'o2'")
    assert imported(gatemark, tmp_path, otlp(SAYS, SAYS)).code == 0
    assert said(tmp_path / "traces") == [("chat", "Fever.")]


@pytest.mark.parametrize("around", ["none", "agents", "tools", "itself"])
def test_spans_without_their_parent_or_in_a_circle_are_kept(
    around: str, gatemark: Run, tmp_path: Path
) -> None:
    kind = {"agents": "AGENT", "tools": "TOOL"}.get(around)
    circle = [span("x", kind, "y-0", 0), span("y", kind, "x-0", 0)] if kind else []
    parent = {"none": "gone-0", "itself": "chat-5"}.get(around, "x-0")
    says = span("chat", "LLM", parent, 5, output__value="Fever.")
    assert imported(gatemark, tmp_path, otlp(*circle, says)).code == 0
    assert said(tmp_path / "traces") == [("x" if around == "agents" else "chat", "Fever.")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(zip(TIMES, (SAYS[TIMES[1]], SAYS[TIMES[0]]), strict=True)), "ends before it starts"),
        ({TIMES[0]: "yesterday"}, "has a time that is not a number of nanoseconds"),
        ({TIMES[1]: "-1"}, "has a time that is not a number of nanoseconds"),
        (
            {"attributes": [*SAYS["attributes"], attribute("output.value", "Cough.")]},
            "attribute 'output.value' appears more than once, with different values",
        ),
    ],
)
def test_spans_that_contradict_themselves_are_refused(
    changes: dict[str, Any], words: str, gatemark: Run, tmp_path: Path
) -> None:
    refused(imported(gatemark, tmp_path, otlp({**SAYS, **changes})), tmp_path, words)


def test_a_configuration_cannot_call_itself_by_the_name_of_another(
    gatemark: Run, tmp_path: Path
) -> None:
    """Attack: a variant that summarises nothing much runs as ``V0``."""
    assert imported(gatemark, tmp_path, [state(FEVER)]).code == 0
    traces, configs = tmp_path / "traces", tmp_path / "configs"
    assert gatemark("runlog", "manifest", traces).code == 0
    configs.mkdir()
    words = ("runlog", "run", "--traces", traces, "--configs", configs, "--output")
    for file, text, message_words in (
        ("terse", TERSE.replace("variant_id: terse", "variant_id: V0"), "trigger_policy of V0"),
        ("V0", TERSE, "variant_id must be V0, got terse"),
        ("V0", TERSE.replace("variant_id: terse", "variant_id: V0"), "must be 'full_exaid', got"),
    ):
        path = configs / f"{file}.yaml"
        path.write_text(text, encoding="utf-8")
        ran = gatemark(*words, tmp_path / "runs", "-j", 1)
        assert ran.code == 2, file
        assert message_words in ran.err
        assert not (tmp_path / "runs").exists()
        path.unlink()
