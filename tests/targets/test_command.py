from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import UsageError
from gatemark.targets.command import CommandTarget
from gatemark.targets.outcomes import CallOutcome
from gatemark.targets.port import Call
from gatemark.targets.run_options import RunOptions

from .rigs import questions, run

LOOP = """
import json, os, sys, time
asked = 0
for line in sys.stdin:
    call = json.loads(line)
    asked += 1
    def say(**fields):
        print(json.dumps({"id": call["id"], **fields}), flush=True)
"""


def _target(folder: Path, body: str, **options: Any) -> CommandTarget:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (folder / "bot.py").write_text(LOOP + lines, encoding="utf-8")
    options.setdefault("max_reply_bytes", 1_000_000)
    return CommandTarget(
        [sys.executable, "bot.py"],
        folder,
        clock=time.perf_counter,
        environ=os.environ,
        **options,
    )


def _kinds(outcomes: tuple[CallOutcome, ...]) -> list[str]:
    return [o.error.kind if o.error else "ok" for o in outcomes]


def _messages(outcomes: tuple[CallOutcome, ...]) -> list[str]:
    return [o.error.message for o in outcomes if o.error]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_one_process_answers_many_calls(tmp_path: Path) -> None:
    target = _target(tmp_path, "say(output=[os.getpid(), asked], confidence=0.5, model='m')")
    outcomes = run(target, questions(20))
    outputs = [o.reply.output for o in outcomes if o.reply]
    assert len({pid for pid, _ in outputs}) == 1
    assert [asked for _, asked in outputs] == list(range(1, 21))
    assert outcomes[0].reply is not None
    assert (outcomes[0].reply.confidence, outcomes[0].reply.model) == (0.5, "m")


def test_each_slot_has_its_own_process_and_all_end_with_the_target(tmp_path: Path) -> None:
    target = _target(tmp_path, "time.sleep(0.02)\nsay(output=os.getpid())")
    outcomes = run(target, questions(24), RunOptions(concurrency=4))
    pids = {o.reply.output for o in outcomes if o.reply}
    assert len(pids) == 4
    assert not any(_alive(pid) for pid in pids)


def test_the_sample_is_sent_only_when_asked_for(tmp_path: Path) -> None:
    call = Call(
        id="q1",
        epoch=3,
        input={"a": 1},
        sample={"target": "yes", "lang": "en", "hint": 1},
        variables={"v": 2},
    )
    shy = _target(tmp_path, "say(output=call)")
    assert shy.reads == {"input", "variables"}
    (outcome,) = run(shy, [call])
    assert outcome.reply is not None
    assert outcome.reply.output == {
        "id": "q1",
        "epoch": 3,
        "input": {"a": 1},
        "variables": {"v": 2},
    }
    open_one = _target(tmp_path, "say(output=call)", send_sample=True)
    assert open_one.reads == {"input", "variables", "sample"}
    (outcome,) = run(open_one, [call])
    assert outcome.reply is not None
    assert outcome.reply.output["sample"] == {"lang": "en", "hint": 1}
    narrow = _target(tmp_path, "say(output=call)", fields=("lang", "target"))
    (outcome,) = run(narrow, [call])
    assert outcome.reply is not None
    assert outcome.reply.output["sample"] == {"lang": "en"}


def test_a_crash_shows_the_last_words_and_the_next_call_gets_a_new_process(tmp_path: Path) -> None:
    body = (
        "if call['id'] == 'q0001':\n"
        "    sys.stderr.write('x' * 100000 + 'out of cheese')\n"
        "    sys.exit(7)\n"
        "say(output=asked)"
    )
    outcomes = run(_target(tmp_path, body), questions(3))
    assert _kinds(outcomes) == ["ok", "crash", "ok"]
    (message,) = _messages(outcomes)
    assert "exited with code 7 instead of answering" in message
    assert message.endswith("out of cheese")
    assert len(message) < 2_500
    assert outcomes[2].reply is not None
    assert outcomes[2].reply.output == 1


def test_a_crash_is_retried_when_retries_were_asked_for(tmp_path: Path) -> None:
    body = (
        "from pathlib import Path\n"
        "seen = Path('seen')\n"
        "if not seen.exists():\n"
        "    seen.touch()\n"
        "    os.kill(os.getpid(), 9)\n"
        "say(output='back')"
    )
    (outcome,) = run(_target(tmp_path, body), questions(1), RunOptions(retries=2, backoff_base_s=0))
    assert outcome.reply is not None
    assert outcome.reply.output == "back"
    assert outcome.attempts == 2


def test_a_killed_process_is_named_by_its_signal(tmp_path: Path) -> None:
    outcomes = run(_target(tmp_path, "os.kill(os.getpid(), 9)"), questions(1))
    assert "was killed by SIGKILL instead of answering; stderr is empty" in _messages(outcomes)[0]


def test_a_hanging_process_is_killed_with_its_children(tmp_path: Path) -> None:
    body = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "open('pids', 'a').write(f'{os.getpid()} {child.pid}\\n')\n"
        "time.sleep(60)"
    )
    outcomes = run(_target(tmp_path, body), questions(2), RunOptions(timeout_s=1.0))
    assert _kinds(outcomes) == ["timeout", "timeout"]
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 4
    for _ in range(3000):
        if not any(_alive(pid) for pid in pids):
            break
        time.sleep(0.02)
    assert not any(_alive(pid) for pid in pids)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("print('loading model...', flush=True)", "printed 'loading model...'"),
        ("print(flush=True)", "printed ''"),
        ("print('[1]', flush=True)", "must print objects, got '[1]'"),
        ('print(\'{"id": "other", "output": 1}\', flush=True)', "answered for id 'other'"),
        ("say(output=1, epoch=9)", "answered for id 'q0000', epoch 9"),
        ("say(output=float('nan'))", 'printed \'{"id": "q0000", "output": NaN}\''),
        ("say(ouput='typo')", "unknown key 'ouput'"),
        ('print(\'{"id":"q0000","output":1e999}\', flush=True)', "out of range"),
        ("sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush()", "printed"),
    ],
)
def test_garbage_is_a_bad_reply_and_the_next_call_is_fine(
    tmp_path: Path, body: str, complaint: str
) -> None:
    body = f"if call['id'] == 'q0000':\n    {body}\nelse:\n    say(output='fine')"
    outcomes = run(_target(tmp_path, body), questions(2))
    assert _kinds(outcomes) == ["bad_reply", "ok"]
    assert complaint in _messages(outcomes)[0]


def test_a_reply_of_ten_megabytes_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    body = "say(output='x' * (10_000_000 if call['id'] == 'q0001' else 5))"
    outcomes = run(_target(tmp_path, body), questions(3))
    assert _kinds(outcomes) == ["ok", "bad_reply", "ok"]
    assert "a reply must be at most 1000000 bytes" in _messages(outcomes)[0]


def test_a_large_reply_below_the_limit_arrives_whole(tmp_path: Path) -> None:
    target = _target(tmp_path, "say(output='x' * 900_000)")
    (outcome,) = run(target, questions(1))
    assert outcome.reply is not None
    assert outcome.reply.output == "x" * 900_000


def test_a_command_can_report_a_failure_itself(tmp_path: Path) -> None:
    outcomes = run(_target(tmp_path, "say(error='no such user')"), questions(2))
    assert _kinds(outcomes) == ["refused", "refused"]
    assert _messages(outcomes)[0] == "the command says: no such user"


def test_a_missing_program_is_refused_before_any_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no program 'not-a-program-here'"):
        CommandTarget(
            ["not-a-program-here"],
            tmp_path,
            clock=time.perf_counter,
            max_reply_bytes=9,
            environ={},
        )


def test_the_identity_covers_argv_and_the_files_of_the_folder(tmp_path: Path) -> None:
    first = _target(tmp_path, "say(output=1)").identity()
    second = _target(tmp_path, "say(output=2)").identity()
    assert list(first["files"]) == ["bot.py"]
    assert first["argv"] == second["argv"]
    assert first["files"] != second["files"]


def test_cancelling_in_mid_call_leaves_no_process(tmp_path: Path) -> None:
    target = _target(tmp_path, "open('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)")

    async def whole() -> None:
        task = asyncio.create_task(target.call(questions(1)[0]))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await target.close()

    asyncio.run(whole())
    assert not _alive(int((tmp_path / "pid").read_text()))
