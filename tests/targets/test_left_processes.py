"""Whatever a target started is ended with it, also in a session of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from gatemark.targets.command import CommandTarget
from gatemark.targets.port import Call, Target, TargetError
from gatemark.targets.python_worker import PythonWorkerTarget

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="this system has no /proc"
)
START = """
import pathlib, subprocess, sys
def start():
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    pathlib.Path(PLACE).write_text(str(left.pid))
"""


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def ended(pid: int) -> bool:
    """Wait for a process that was killed; it is gone when the system has cleared it away."""
    deadline = time.monotonic() + 30
    while is_running(pid) and time.monotonic() < deadline:
        os.sched_yield()
    return not is_running(pid)


async def ask(target: Target) -> None:
    try:
        await target.call(Call(id="a", epoch=1, input="x"))
    except TargetError:
        pass  # the death of a target is part of the test
    finally:
        await target.close()


@pytest.mark.parametrize("end", ["return text", "os._exit(3)"])
def test_a_python_target_leaves_no_process(tmp_path: Path, end: str) -> None:
    place = tmp_path / "pid"
    source = START.replace("PLACE", repr(str(place)))
    (tmp_path / "app.py").write_text(
        f"import os\n{source}\ndef answer(text):\n    start()\n    {end}\n"
    )
    target = PythonWorkerTarget(
        "app:answer", tmp_path, environ={}, concurrency=1, max_reply_bytes=10_000
    )
    asyncio.run(ask(target))
    assert ended(int(place.read_text()))


def test_a_command_leaves_no_process(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    source = START.replace("PLACE", repr(str(place)))
    (tmp_path / "app.py").write_text(
        f"import json\n{source}\nfor line in sys.stdin:\n    start()\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'output': 1}), flush=True)\n"
    )
    target = CommandTarget(
        (sys.executable, "app.py"),
        tmp_path,
        clock=time.monotonic,
        max_reply_bytes=10_000,
        environ={},
    )
    asyncio.run(ask(target))
    assert ended(int(place.read_text()))
