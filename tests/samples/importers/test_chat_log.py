"""Chat logs of agents: messages become steps, and whoever runs code is a tool."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

GROUP = {
    "question": "How many live there?",
    "question_ID": "q-7",
    "ground_truth": "56000",
    "is_correct": False,
    "history": [
        {"role": "assistant", "name": "Manager", "content": "Please count the people."},
        {"role": "user", "name": "Coder", "content": "```python\nprint(1)\n```"},
        {
            "role": "user",
            "name": "Shell",
            "content": "exitcode: 1 (execution failed)\nCode output: x",
        },
        {"role": "user", "name": "Coder", "content": "The population is 57,000 people."},
        {"role": "user", "name": "Coder", "content": "TERMINATE"},
    ],
}
API = {
    "id": "c-1",
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "What does it cost?"},
        {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "price", "arguments": '{"of": "parcel"}'}}],
        },
        {"role": "tool", "name": "price", "content": "Error: no such thing"},
        {"role": "assistant", "content": [{"type": "text", "text": "It costs four, I suppose."}]},
    ],
}


def decisions(gatemark: Run, tmp_path: Path, *logs: Any) -> list[dict[str, Any]]:
    path, written = tmp_path / "chat.jsonl", tmp_path / "decisions.jsonl"
    path.write_text("\n".join(json.dumps(log) for log in logs))
    ran = gatemark("import", path, "--to", "decisions", "-o", written)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in written.read_text().splitlines()]


def test_a_group_chat_becomes_a_decision_with_its_judgement(gatemark: Run, tmp_path: Path) -> None:
    (found,) = decisions(gatemark, tmp_path, GROUP)
    assert found["id"] == "q-7"
    assert found["input"] == "How many live there?"
    assert found["output"] == "The population is 57,000 people."
    assert [step["kind"] for step in found["steps"]] == ["model", "model", "tool", "model", "model"]
    assert [step["sources"] for step in found["steps"]] == [["input"], ["0"], ["1"], ["2"], ["3"]]
    assert found["steps"][2]["error"].startswith("exitcode: 1")
    assert "latency_ms" not in found["steps"][0]
    assert found["judgement"] == {"verdict": "wrong", "reviewer": "log", "expected": "56000"}


def test_a_chat_with_roles_takes_the_first_user_message_as_the_question(
    gatemark: Run, tmp_path: Path
) -> None:
    (found,) = decisions(gatemark, tmp_path, API)
    assert found["input"] == "What does it cost?"
    assert [(step["id"], step["kind"]) for step in found["steps"]] == [
        ("2", "model"),
        ("3", "tool"),
        ("4", "model"),
    ]
    assert found["steps"][0]["output"] == 'price({"of": "parcel"})'
    assert found["steps"][1]["error"] == "Error: no such thing"
    assert found["output"] == "It costs four, I suppose."
    assert "judgement" not in found


def test_conversations_become_samples_too(gatemark: Run, tmp_path: Path) -> None:
    path, written = tmp_path / "chat.json", tmp_path / "samples.jsonl"
    path.write_text(json.dumps(GROUP))
    ran = gatemark("import", path, "--from", "chat-log", "-o", written)
    assert ran.code == 0, ran.err
    sample = json.loads(written.read_text())
    assert sample["id"] == "q-7"
    assert sample["scores"] == {"correct": 0.0}
    assert sample["target"] == "56000"
    assert sample["latency_ms"] is None


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ({"question": "?", "history": []}, "needs messages"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "needs a 'question'"),
        ({"question": "?", "history": [{"content": "x"}] * 10_001}, "at most 10000"),
        ({"question": "?", "history": "none"}, "history"),
    ],
)
def test_what_is_no_conversation_is_refused_with_its_place(
    gatemark: Run, tmp_path: Path, log: Any, problem: str
) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps(log) + "\n" + json.dumps(GROUP))
    ran = gatemark("import", path, "--from", "chat-log", "--to", "decisions")
    assert ran.code == 2
    assert problem in ran.err
    assert "chat.jsonl:1" in ran.err


def test_an_array_of_conversations_is_read(gatemark: Run, tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([GROUP, API]))
    ran = gatemark("import", path, "--to", "decisions")
    assert ran.code == 0, ran.err
    assert "2 decisions, 0 refused" in ran.out
