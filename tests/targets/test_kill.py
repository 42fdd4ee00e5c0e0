"""Real kills: a run is shot again and again, resumed each time, and nothing is lost or redone."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from tests.forked import Forked

from gatemark.targets.journal import Journal

CALL_COUNT = 600
KILL_COUNT = 22

APP = """
import os, time

LOG = os.open("calls.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def answer(q):
    os.write(LOG, f"{os.getpid()} q{q:04d}\\n".encode())
    time.sleep(float(os.environ["CALL_S"]))
    if q % 50 == 7:
        raise ValueError(f"no {q}")
    return {"output": [q, "x" * (q % 13) * 400], "confidence": q / 1000}
"""

RUN = f"""
import asyncio, json, os, random, sys, time
from pathlib import Path
from gatemark.targets.journal import Journal
from gatemark.targets.run_options import RunOptions
from gatemark.targets.port import Call
from gatemark.targets.python_callable import PythonTarget
from gatemark.targets.runner import run_calls

async def main():
    jobs = int(sys.argv[1])
    folder = Path.cwd()
    target = PythonTarget("app:answer", folder, clock=time.perf_counter, inline=jobs == 1)
    calls = [Call(id=f"q{{i:04d}}", epoch=0, input=i) for i in range({CALL_COUNT})]
    with Journal(folder / "j.jsonl", clock=time.monotonic) as journal:
        outcomes = await run_calls(target, calls, RunOptions(concurrency=jobs), journal,
            clock=time.monotonic, sleep=asyncio.sleep, rng=random.Random(1))
    await target.close()
    rows = [[o.id, o.epoch, o.reply and [o.reply.output, o.reply.confidence],
             o.error and [o.error.kind, o.error.message], o.attempts] for o in outcomes]
    (folder / "outcomes.json").write_text(json.dumps(rows))

asyncio.run(main())
"""


def _start(folder: Path, jobs: int, call_s: float) -> Forked:
    (folder / "app.py").write_text(APP)
    script = folder.parent / "run.py"
    script.write_text(RUN)
    return Forked((jobs,), script=script, folder=folder, variables={"CALL_S": str(call_s)})


def _asked(folder: Path, pid: int) -> list[str]:
    log = folder / "calls.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [word for process, word in map(str.split, lines) if process == str(pid)]


def _written(folder: Path) -> set[str]:
    """Ids on whole lines, read without the journal's own reader."""
    path = folder / "j.jsonl"
    data = path.read_bytes() if path.exists() else b""
    return {json.loads(line)["id"] for line in data.split(b"\n")[:-1]}


@pytest.mark.parametrize("jobs", [1, 4])
def test_kills_at_any_moment_lose_nothing_and_repeat_nothing(tmp_path: Path, jobs: int) -> None:
    calm, shot = tmp_path / "calm", tmp_path / "shot"
    calm.mkdir()
    shot.mkdir()
    assert _start(calm, jobs, 0.0).finish().returncode == 0

    rng = random.Random(jobs)
    kills = 0
    call_s = 0.004 * jobs
    finished_before: set[str] = set()
    for _ in range(KILL_COUNT):
        process = _start(shot, jobs, call_s)
        while process.poll() is None and not _asked(shot, process.pid):
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.04))
        process.kill()
        kills += process.finish().returncode == -9
        assert not finished_before & set(_asked(shot, process.pid))
        now = _written(shot)
        assert finished_before <= now
        finished_before = now

    last = _start(shot, jobs, 0.0)
    assert last.finish().returncode == 0
    assert kills == KILL_COUNT
    assert 0 < len(finished_before) < CALL_COUNT
    asked_last = _asked(shot, last.pid)
    assert sorted(asked_last) == sorted(_written(calm) - finished_before)
    with Journal(shot / "j.jsonl", clock=time.monotonic) as journal:
        assert len(journal) == CALL_COUNT
        assert journal.damage.messages("j") == ()
    assert json.loads((shot / "outcomes.json").read_text()) == json.loads(
        (calm / "outcomes.json").read_text()
    )
