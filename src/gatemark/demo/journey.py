"""The demo: the bundled synthetic data walked through the whole workspace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

import msgspec

from gatemark.core.result import Result
from gatemark.exams.score import ScoreRequest, score_exam
from gatemark.packs.init import write_starter
from gatemark.packs.run import RunChoices, run_pack
from gatemark.report.outputs import write_attachments, write_reports
from gatemark.workspace import Workspace

PAIRS = {
    "baseline": "Hotel help desk, prompt 6 (baseline)",
    "candidate": "Hotel help desk, prompt 7 (candidate)",
}


class DemoStep(msgspec.Struct, frozen=True):
    """One act of the demo: what was judged, how it should end, and where its report lies."""

    name: str
    planned: str
    result: Result
    report: Path


def run_demo(folder: Path) -> Iterator[DemoStep]:
    """Two exams; each has a baseline that passes and a candidate that fails as planted."""
    folder.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(store=str(folder / "store"), actor="demo")
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
