"""Deleting any one plugin file may break nothing but that plugin."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.forked import Forked
from tests.package_copy import SOURCE, copy_package

EXAMS = sorted(
    path.parent for ring in ("checks", "plugins") for path in (SOURCE / ring).glob("*/exam.py")
)
SUITES = sorted(
    path for path in (SOURCE / "packs" / "suites").glob("*.py") if "\nSUITE = " in path.read_text()
)
PLUGINS = [path.relative_to(SOURCE) for path in (*EXAMS, *SUITES)]

SURVIVORS = """
import sys
from gatemark.cli.main import VERBS, gatemark, main
from gatemark.evidence.exam_suite import ExamSuite
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.evidence.measures import measures
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.exam_suite import suites
from gatemark.testing.folds import check_fold
from gatemark.testing.schemas import check_schema

import click
for verb in set(VERBS) - {sys.argv[-1]}:
    assert gatemark.get_command(click.Context(gatemark), verb) is not None
assert main(["--help"]) == 0
for measure in measures():
    check_fold(measure) if "laws" in sys.argv else measure.finish(measure.zero())
for schema in schemas():
    check_schema(schema)
for suite in suites():
    if isinstance(suite, ExamSuite):
        assert suite.build(suite.options(), measures()).policy().rules
    else:
        compares = suite.judge_task is not None
        named = {"source": "other"} if compares else {"dataset": "d"}
        spec = SuiteSpec(id="s", kind="k", weight=1, **named)
        options = suite.options(**({"judge": "j"} if compares else {}))
        assert suite.rules(spec, options) is not None
for registry in (measures(), schemas(), suites()):
    print(*(f"{registry.kind}:{name}" for name in registry.names()), file=sys.stderr)
"""


def survivors(package_parent: Path, *more: str) -> set[str]:
    code = f'import warnings; warnings.simplefilter("error")\n{SURVIVORS}'
    done = Forked(more, code=code, source=package_parent, only={"PATH": ""}).finish()
    assert done.returncode == 0, done.stderr.decode()
    return set(done.stderr.decode().split())


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("copy")
    copy_package(parent)
    return parent


@pytest.fixture(scope="module")
def everyone(copied: Path) -> set[str]:
    # One process that has loaded nothing before: libraries may warn, too.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SURVIVORS, "laws"],
        env={"PYTHONPATH": str(copied), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("plugin", PLUGINS, ids=str)
def test_the_others_survive_without(plugin: Path, copied: Path, everyone: set[str]) -> None:
    victim = copied / "gatemark" / plugin
    hidden = copied / "hidden"
    victim.rename(hidden)
    try:
        # An exam may have a verb of its own, which goes with it.
        left = survivors(copied, plugin.stem)
    finally:
        hidden.rename(victim)
    lost = everyone - left
    own = "".join(path.read_text("utf-8") for path in _modules(SOURCE / plugin))
    assert lost
    assert [name for name in lost if f'"{name.partition(":")[2]}"' not in own] == []


def _modules(plugin: Path) -> Iterator[Path]:
    return plugin.rglob("*.py") if plugin.is_dir() else iter((plugin,))


def test_without_its_measure_the_agreement_exam_is_inconclusive(
    copied: Path, tmp_path: Path
) -> None:
    pairs = tmp_path / "p.jsonl"
    opinions = [{"label": label} for label in ["VALID", "REJECT"] * 60]
    rows = [{"qid": f"Q{i}", "scholar": o, "auditor": o} for i, o in enumerate(opinions)]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    victim = copied / "gatemark" / "checks" / "agreement" / "measure.py"
    source = victim.read_bytes()
    command = ("score", "agreement", "--pairs", pairs)
    assert Forked(command, source=copied).finish().returncode == 0
    victim.unlink()
    try:
        done = Forked(command, source=copied).finish()
    finally:
        victim.write_bytes(source)
    assert done.returncode == 3, done.stderr.decode()
    assert b"was not measured" in done.stdout
