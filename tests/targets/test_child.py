"""A child can be ended whatever became of its pipes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gatemark.targets.child import Child, start_child

ENDS_WITHIN_S = 30


async def started(folder: Path, body: str, *, keeps_stderr: bool = True) -> Child:
    shell = shutil.which("sh")
    assert shell is not None
    return await start_child(
        shell, ["-c", body], folder, environ=os.environ, keeps_stderr=keeps_stderr
    )


async def ended(child: Child) -> int | None:
    async with asyncio.timeout(ENDS_WITHIN_S):
        await child.end()
    return child.process.returncode


@pytest.mark.parametrize("body", ["yes", "yes >&2", "yes & yes >&2"])
def test_a_flood_that_nobody_reads_does_not_hold_up_the_end(tmp_path: Path, body: str) -> None:
    async def check() -> int | None:
        child = await started(tmp_path, body)
        assert child.process.stdout is not None
        assert child.process.stderr is not None
        # Until the streams have more than they hold and stop reading.
        flooded = child.process.stderr if body == "yes >&2" else child.process.stdout
        await flooded.readexactly(1)
        await asyncio.sleep(0.3)
        return await ended(child)

    assert asyncio.run(check()) == -signal.SIGKILL


def test_a_grandchild_that_keeps_the_pipes_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """It has a session of its own, so that the end of the group does not reach it."""

    async def check() -> int | None:
        child = await started(tmp_path, "setsid sh -c 'echo $$ > pid; sleep 60' & wait")
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            await asyncio.sleep(0.01)
        return await ended(child)

    assert asyncio.run(check()) == -signal.SIGKILL


def test_input_that_nobody_reads_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def check() -> int | None:
        child = await started(tmp_path, "sleep 60")
        assert child.process.stdin is not None
        child.process.stdin.write(b"x" * 4_000_000)
        return await ended(child)

    assert asyncio.run(check()) == -signal.SIGKILL


def test_a_child_that_has_ended_keeps_its_code(tmp_path: Path) -> None:
    async def check() -> tuple[int | None, int | None]:
        child = await started(tmp_path, "exit 3", keeps_stderr=False)
        code = await child.process.wait()
        return code, await ended(child)

    assert asyncio.run(check()) == (3, 3)


def test_whoever_cancels_waits_until_the_child_is_gone(tmp_path: Path) -> None:
    async def check() -> int | None:
        child = await started(tmp_path, "sleep 60")
        ending = asyncio.create_task(child.end())
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        return child.process.returncode

    assert asyncio.run(check()) == -signal.SIGKILL


def test_a_program_that_cannot_be_started_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        asyncio.run(
            start_child(str(tmp_path / "gone"), [], tmp_path, environ={}, keeps_stderr=False)
        )


STARTED = """
import asyncio, ctypes, os, sys, time
from pathlib import Path
from gatemark.targets.command import CommandTarget
from gatemark.targets.port import Call
from gatemark.targets.python_worker import PythonWorkerTarget
from gatemark.targets.script import ScriptTarget
kind, folder = sys.argv[1], Path(sys.argv[2])
options = {"environ": {"PATH": os.environ["PATH"]}, "max_reply_bytes": 1000}
async def main():
    if kind == "python":
        target = PythonWorkerTarget("app:answer", folder, concurrency=1, **options)
    else:
        made = {"command": CommandTarget, "script": ScriptTarget}[kind]
        target = made([sys.executable, kind + ".py"], folder, clock=time.monotonic, **options)
    print((await target.call(Call(id="q", epoch=0, input="x"))).output)
    await target.close()
asyncio.run(main())
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
@pytest.mark.parametrize("kind", ["python", "command", "script"])
def test_a_target_cannot_read_the_environment_of_the_judge(tmp_path: Path, kind: str) -> None:
    """Other processes of the same user cannot open /proc/PID/environ of one that says so."""
    (tmp_path / "app.py").write_text("def answer(text): return 'said'")
    (tmp_path / "script.py").write_text("print('\"said\"')")
    (tmp_path / "command.py").write_text(
        "import sys\nfor line in sys.stdin:\n"
        '    print(\'{"id": "q", "output": "said"}\', flush=True)\n'
    )
    ran = subprocess.run(
        [sys.executable, "-c", STARTED, kind, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["said", "0"]
