"""The demo: the bundled synthetic data walked through the whole house."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

import msgspec

from gatemark.core.result import Result
from gatemark.flow.house import House
from gatemark.flow.outputs import write_attachments, write_reports
from gatemark.flow.reading import ReadingChoices
from gatemark.flow.score_agreement import score_agreement

ARMS = {
    "baseline": "Hotel help desk, prompt 6 (baseline)",
    "candidate": "Hotel help desk, prompt 7 (candidate)",
}
EXPECTED = {"baseline": "pass", "candidate": "fail"}


class DemoStep(msgspec.Struct, frozen=True):
    """One act of the demo: what was judged and where its report lies."""

    arm: str
    result: Result
    report: Path


def run_demo(folder: Path) -> list[DemoStep]:
    """Judge a baseline that passes and a candidate that fails for a planted reason."""
    folder.mkdir(parents=True, exist_ok=True)
    house = House(store=str(folder / "store"), actor="demo")
    steps = []
    for arm, title in ARMS.items():
        name = f"pairs_{arm}.jsonl"
        with as_file(files("gatemark.demo_data") / name) as bundled:
            shutil.copyfile(bundled, folder / name)
        scored = score_agreement(
            house, {}, ReadingChoices(), pairs=str(folder / name), seal=True, title=title
        )
        report = folder / f"{arm}.html"
        write_reports(scored.result, [str(report), str(folder / f"{arm}.md")])
        write_attachments(str(folder / arm), scored.attachments)
        steps.append(DemoStep(arm=arm, result=scored.result, report=report))
    return steps
