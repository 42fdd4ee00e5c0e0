"""The diffs in CONTRIBUTING.md still apply, and do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.package_copy import copy_package

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^### (?P<title>[^\n]+)\n(?P<body>.*?)(?=^##)", re.DOTALL | re.MULTILINE)
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE)
THROUGH_A_STORE = """
import sys
from pathlib import Path
from release.lifecycle.test_through_a_store import ASSET, Site
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.events.versions import ChangeRisk
from gatemark.release.lifecycle.act import act
from release.lifecycle.replay import replay
from gatemark.release.lifecycle.views.history import asset_history
from gatemark.release.lifecycle.views.text import lines_of
from docs_pages.formats import formats_page

site = Site(Path(sys.argv[1]))
site.add("1.0.0")
done = act(site.workspace, ChangeRisk(actor="olu", asset=ASSET, risk="high", note="new users"))
print(*lines_of(done))
print(replay(site.workspace.events, ASSET).asset.risk)
print(asset_history(site.workspace, ASSET).lines[0].what)
print(next(line for line in formats_page().splitlines() if "risk_changed" in line))
print(verify(site.workspace, VerifyRequest()).exit_code)
"""


def diffs() -> dict[str, str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    looks = text.partition("## How a change looks\n")[2]
    looks = looks[: looks.index("\n## ") + 3]
    return {
        found["title"]: found_diff.group(1)
        for found in SECTION.finditer(looks)
        if (found_diff := DIFF.search(found["body"])) is not None
    }


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, its tests and the makers of its pages."""
    copy_package(tmp_path / "src")
    ignored = shutil.ignore_patterns("__pycache__", "fixtures")
    folders = ("docs", "doors", "plugins/advisory", "release/lifecycle", "server")
    for folder in (*(f"tests/{name}" for name in folders), "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for helper in (ROOT / "tests").glob("[!t]*.py"):
        shutil.copy(helper, tmp_path / "tests" / helper.name)
    return tmp_path


def apply(folder: Path, diff: str) -> None:
    (folder / "change.diff").write_text(diff, encoding="utf-8")
    command = ["git", "apply", "change.diff"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def python(folder: Path, *arguments: str) -> list[str]:
    places = (folder / "src", folder / "tests", folder / "tools")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_new_event_is_known_everywhere(copy: Path) -> None:
    apply(copy, diffs()["A new kind of lifecycle event: one file"])
    python(
        copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/release/lifecycle/test_risk.py"
    )
    answer, risk, history, page, verified = python(copy, "-c", THROUGH_A_STORE, "store")
    assert re.fullmatch(r"triage: the risk is high: new users \(event \d+\)", answer)
    assert risk == "high"
    assert history == "the risk is high"
    assert page == (
        "| `risk_changed` | `gatemark.event.risk_changed/1` | the risk class of an asset changes "
        "| operator |"
    )
    assert verified == "0"


def test_a_new_field_is_read(copy: Path) -> None:
    apply(copy, diffs()["A new field of the advisory record: one line"])
    name = "tests/plugins/advisory/test_record.py::test_a_region_may_be_named_and_is_searched"
    python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", name)


def test_a_new_option_is_at_every_door(copy: Path) -> None:
    apply(copy, diffs()["A new option of a command: one file"])
    names = ("tests/doors/test_only.py", "tests/doors/test_doors.py")
    python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *names)
