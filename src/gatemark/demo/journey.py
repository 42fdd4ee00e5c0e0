"""The demo: run the bundled synthetic data through every stage."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.errors import RefusedError
from gatemark.core.result import Result
from gatemark.exams.score import ScoreRequest, score_exam
from gatemark.packs.init import write_starter
from gatemark.packs.run import RunChoices, run_pack
from gatemark.report.outputs import write_attachments, write_reports
from gatemark.workspace import Workspace

MARK: Final = ".gatemark-demo"
PAIRS = {
    "baseline": "Hotel help desk, prompt 6 (baseline)",
    "candidate": "Hotel help desk, prompt 7 (candidate)",
}


class DemoStep(msgspec.Struct, frozen=True):
    """One step of the demo: what was judged, the planned verdict, and the path of its report."""

    name: str
    planned: str
    result: Result
    report: Path


class DemoClock:
    """A clock that moves when it is set, and a little on every read."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now


def new_store(folder: Path) -> str:
    """Return the path of an empty store in the folder; a store of an earlier demo is removed.

    A store that the demo did not create is never touched.
    """
    store, mark = folder / "store", folder / MARK
    if store.exists() and not mark.exists():
        raise RefusedError(f"{store} was not created by the demo; choose another folder")
    shutil.rmtree(store, ignore_errors=True)
    write_whole(mark, [b"gatemark demo may replace the store beside this file\n"])
    return str(store)


def run_demo(folder: Path, store: str, start: datetime) -> Iterator[DemoStep]:
    """Run two exams, each with a baseline that passes and a candidate that fails as planned."""
    workspace = Workspace(store=store, actor="demo", clock=DemoClock(start))
    for arm in PAIRS:
        yield _agreement(workspace, folder, arm)
    yield from _packs(workspace, folder)


def _agreement(workspace: Workspace, folder: Path, arm: str) -> DemoStep:
    name = f"pairs_{arm}.jsonl"
    _unpack(name, folder / name)
    request = ScoreRequest(files=[("pairs", str(folder / name))], seal=True, title=PAIRS[arm])
    scored = score_exam(workspace, "agreement", {}, request, started_at=workspace.clock())
    write_attachments(str(folder / arm), scored.attachments)
    return _step(folder, arm, "pass" if arm == "baseline" else "fail", scored.result)


def _packs(workspace: Workspace, folder: Path) -> Iterator[DemoStep]:
    pack = folder / "pack"
    shutil.rmtree(pack, ignore_errors=True)
    write_starter(pack)
    path = pack / "pack.yaml"
    result = run_pack(workspace, str(path), RunChoices())
    yield _step(folder, "pack-baseline", "pass", result)
    _unpack("sorter_v2.py", pack / "sorter_v2.py")
    changed = pack / "pack-v2.yaml"
    changed.write_text(path.read_text().replace('"sorter:candidate"', '"sorter_v2:answer"'))
    result = run_pack(workspace, str(changed), RunChoices())
    yield _step(folder, "pack-candidate", "fail", result)


def _unpack(name: str, target: Path) -> None:
    with as_file(files("gatemark.demo") / name) as bundled:
        shutil.copyfile(bundled, target)


def _step(folder: Path, name: str, planned: str, result: Result) -> DemoStep:
    report = folder / f"{name}.html"
    write_reports(result, [str(report), str(folder / f"{name}.md")])
    return DemoStep(name=name, planned=planned, result=result, report=report)
