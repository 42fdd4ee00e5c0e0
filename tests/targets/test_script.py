from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from gatemark.core.errors import UsageError
from gatemark.targets.port import Call, TargetError
from gatemark.targets.run_options import RunOptions
from gatemark.targets.script import ScriptTarget

from .rigs import ask, run

CALL = Call(id="q1", epoch=0, input={"n": 3})


def script(folder: Path, body: str, *arguments: str, limit: int = 10_000) -> ScriptTarget:
    place = folder / "advise.sh"
    place.write_text(f"#!/bin/sh\n{body}\n")
    place.chmod(0o755)
    return ScriptTarget(
        ["./advise.sh", *arguments],
        folder,
        clock=time.perf_counter,
        max_reply_bytes=limit,
        environ=os.environ,
    )


def test_a_script_gets_the_input_on_stdin_and_answers_on_stdout(tmp_path: Path) -> None:
    target = script(tmp_path, 'read line; echo "{\\"got\\": $line, \\"with\\": \\"$1\\"}"', "a b")
    reply = ask(target, CALL)
    assert reply.output == {"got": {"n": 3}, "with": "a b"}
    assert reply.latency_ms is not None
    assert reply.latency_ms > 0


def test_each_call_starts_the_script_anew(tmp_path: Path) -> None:
    target = script(tmp_path, "echo x >> starts; cat > /dev/null; wc -l < starts")
    outcomes = run(target, [Call(id=str(n), epoch=0, input=n) for n in range(3)], RunOptions())
    assert [outcome.reply.output for outcome in outcomes if outcome.reply] == [1, 2, 3]


@pytest.mark.parametrize(
    ("body", "kind", "complaint"),
    [
        ("echo '{}'; exit 4", "crash", "exited with code 4"),
        ("echo nonsense", "bad_reply", "did not print one JSON value"),
        ("exit 0", "bad_reply", "did not print one JSON value"),
        ("echo 1; echo 2", "bad_reply", "did not print one JSON value"),
        ("yes", "bad_reply", "at most 10000 bytes"),
    ],
)
def test_a_script_that_misbehaves_is_an_error_with_a_kind(
    tmp_path: Path, body: str, kind: str, complaint: str
) -> None:
    with pytest.raises(TargetError, match=complaint) as caught:
        ask(script(tmp_path, body), CALL)
    assert caught.value.kind == kind


def test_a_script_that_answers_without_listening_is_fine(tmp_path: Path) -> None:
    target = script(tmp_path, "echo 7")
    assert ask(target, Call(id="q", epoch=0, input="x" * 1_000_000)).output == 7


def test_a_script_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    target = script(tmp_path, "sleep 60 & echo $! > child; wait")
    (outcome,) = run(target, [CALL], RunOptions(timeout_s=0.5))
    assert outcome.error is not None
    assert outcome.error.kind == "timeout"
    child = int((tmp_path / "child").read_text())
    for _ in range(3000):
        if not Path(f"/proc/{child}").exists() or "Z" in _state(child):
            return
        time.sleep(0.02)
    pytest.fail("the child is still running")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    except FileNotFoundError:
        return "Z"


def test_a_program_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    for argv in ([], ["./gone.sh"], ["no-such-program-anywhere"]):
        with pytest.raises(UsageError, match="script target"):
            ScriptTarget(argv, tmp_path, clock=time.perf_counter, max_reply_bytes=10, environ={})


def test_a_file_that_cannot_be_run_is_a_crash(tmp_path: Path) -> None:
    target = script(tmp_path, "echo 1")
    (tmp_path / "advise.sh").write_text("#!/no/such/interpreter\n")
    with pytest.raises(TargetError, match="cannot be started"):
        ask(target, CALL)


def test_the_identity_pins_the_script_s_text(tmp_path: Path) -> None:
    before = script(tmp_path, "echo 1").identity()
    after = script(tmp_path, "echo 2").identity()
    assert before["kind"] == "script"
    assert before["files"] != after["files"]
    asyncio.run(script(tmp_path, "echo 1").close())
