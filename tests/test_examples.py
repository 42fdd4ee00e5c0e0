"""The small examples: the commands of each README do what it shows, in this process."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from tests.docs.transcript import fits, steps_of

import make_examples
from gatemark.cli.main import main

FOLDER = Path(__file__).resolve().parents[1] / "examples"
READMES = sorted(
    page for page in FOLDER.glob("*/README.md") if "```console\n" in page.read_text("utf-8")
)


@pytest.mark.parametrize("name", make_examples.EXAMPLES)
def test_the_data_is_what_the_tool_makes(name: str) -> None:
    for file, text in make_examples.EXAMPLES[name]().items():
        assert (FOLDER / name / file).read_text("utf-8") == text


@pytest.mark.slow
@pytest.mark.parametrize("readme", READMES, ids=lambda page: page.parent.name)
def test_the_commands_of_an_example_do_what_it_shows(
    readme: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = tmp_path / "work"
    shutil.copytree(readme.parent, work)
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("GATEMARK_ACTOR", "ann")
    steps = steps_of(readme.read_text("utf-8"))
    followers = [*(step.text for step in steps[1:]), ""]
    code = 0
    for step, follower in zip(steps, followers, strict=True):
        if step.text == "echo $?":
            assert step.shown == (str(int(code)),)
            continue
        program, *words = shlex.split(step.text)
        assert program == "gatemark"
        code = main(words)
        printed = capsys.readouterr()
        assert code == 0 or follower == "echo $?", (step.text, code, printed)
        if step.shown:
            assert fits(step.shown, tuple(printed.out.rstrip("\n").split("\n"))), printed
