"""The demo of verdicts: a baseline that passes and a candidate that fails, in two exams."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from importlib.resources import as_file, files
from pathlib import Path

import msgspec

from gatemark.checks.score import ScoreRequest, score_exam
from gatemark.core.result import Result
from gatemark.packs.init import write_starter
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_pack import run_pack
from gatemark.release.demo.clock import DemoClock
from gatemark.report.outputs import write_attachments, write_reports
from gatemark.workspace import Workspace

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


def play_verdicts(folder: Path, store: str, start: datetime) -> Iterator[DemoStep]:
    """Run two exams, each with a baseline that passes and a candidate that fails as planned."""
    workspace = Workspace(store=store, actor="demo", clock=DemoClock(start))
    for arm in PAIRS:
        yield _score_agreement(workspace, folder, arm)
    yield from _run_packs(workspace, folder)


def _score_agreement(workspace: Workspace, folder: Path, arm: str) -> DemoStep:
    name = f"pairs_{arm}.jsonl"
    _unpack(name, folder / name)
    request = ScoreRequest(files=[("pairs", str(folder / name))], seal=True, title=PAIRS[arm])
    scored = score_exam(workspace, "agreement", {}, request, started_at=workspace.clock())
    write_attachments(str(folder / arm), scored.attachments)
    return _write_step(folder, arm, "pass" if arm == "baseline" else "fail", scored.result)


def _run_packs(workspace: Workspace, folder: Path) -> Iterator[DemoStep]:
    pack = folder / "pack"
    shutil.rmtree(pack, ignore_errors=True)
    write_starter(pack)
    path = pack / "pack.yaml"
    result = run_pack(workspace, str(path), RunChoices())
    yield _write_step(folder, "pack-baseline", "pass", result)
    _unpack("sorter_v2.py", pack / "sorter_v2.py")
    changed = pack / "pack-v2.yaml"
    changed.write_text(path.read_text().replace('"sorter:candidate"', '"sorter_v2:answer"'))
    result = run_pack(workspace, str(changed), RunChoices())
    yield _write_step(folder, "pack-candidate", "fail", result)


def _unpack(name: str, target: Path) -> None:
    with as_file(files("gatemark.release.demo") / name) as bundled:
        shutil.copyfile(bundled, target)


def _write_step(folder: Path, name: str, planned: str, result: Result) -> DemoStep:
    report = folder / f"{name}.html"
    write_reports(result, [str(report), str(folder / f"{name}.md")])
    return DemoStep(name=name, planned=planned, result=result, report=report)
