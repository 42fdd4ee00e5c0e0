from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

# By its whole name: tests that kill commands share its server, which would otherwise load twice.
from tests.docs.transcript import (
    DEMO_OF_PAGES,
    ROOT,
    Ran,
    Step,
    fits,
    make_targets_of,
    run_demo,
    run_steps,
    steps_of,
)
from tests.made_once import made_once
from tests.recordings.transcripts import normalize, quote, shorten

from check_docs import markdown_pages

PAGES = [
    page for page in markdown_pages(ROOT) if "```console\n" in page.read_text(encoding="utf-8")
]
RECORDED_PAGES = ROOT / "tests" / "recordings" / "pages"
MEASURED_PAGES = ("docs/how-to/measure-guard-overhead.md",)
"""Pages that show times measured on this machine: they are not recorded."""
ASK_STATUS = "echo $?"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return partial(made_once, tmp_path_factory, DEMO_OF_PAGES, run_demo)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_of_a_page_does_what_the_page_shows(
    page: Path, tmp_path: Path, demo: Callable[[], Path]
) -> None:
    steps = steps_of(page.read_text(encoding="utf-8"))
    assert steps
    ran = run_steps(steps, tmp_path, demo)
    followers = [*(step.text for step, _ in ran[1:]), ""]
    for (step, answer), follower in zip(ran, followers, strict=False):
        assert answer.status == 0 or follower == ASK_STATUS, (step.text, answer)
        if step.shown:
            assert fits(step.shown, answer.output), "\n".join((step.text, *answer.output))
    if name_of(page) not in MEASURED_PAGES:
        check_recorded(page, ran, tmp_path)


def check_recorded(page: Path, ran: list[tuple[Step, Ran]], folder: Path) -> None:
    """Compare what the commands of a page gave with what is recorded, or record it."""
    folders = {str(folder): "<folder>", str(ROOT): "<source>"}
    parts = []
    for step, answer in ran:
        printed = normalize("\n".join(answer.output), folders)
        parts.append(f"$ {step.text}\nexit {answer.status}\n{quote(shorten(printed))}")
    text = "\n".join(parts)
    file = RECORDED_PAGES / f"{name_of(page).replace('/', '-').removesuffix('.md')}.txt"
    if os.environ.get("GATEMARK_ACCEPT_RECORDINGS"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_readme_shows_all_three_verdicts_and_its_commands_run() -> None:
    steps = steps_of((ROOT / "README.md").read_text(encoding="utf-8"))
    statuses = [step.shown for step in steps if step.text == ASK_STATUS]
    assert {("0",), ("1",), ("3",)} <= set(statuses)
    assert {"demo", "test", "setup"} <= set(make_targets_of(steps))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_make_command_has_its_target(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    wanted = make_targets_of(steps_of(page.read_text(encoding="utf-8")))
    assert set(wanted) <= set(targets)


def test_a_page_that_shows_other_output_is_noticed(
    tmp_path: Path, demo: Callable[[], Path]
) -> None:
    file = '```json title="a.txt"\none\n```\n'
    page = f"{file}```console\n$ cat a.txt\ntwo\n$ false\n$ echo $?\n1\n```\n"
    (first, shown), (_, failed), (_, asked) = run_steps(steps_of(page), tmp_path, demo)
    assert shown == Ran(("one",), 0)
    assert not fits(first.shown, shown.output)
    assert failed.status == 1
    assert asked.output == ("1",)


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (("a … c",), ("a b c",), True),
        (("a … c",), ("a b d",), False),
        (("…", "end"), ("one", "two", "end"), True),
        (("…", "end"), ("one", "two"), False),
        (("a",), ("a", "b"), False),
        (("a", "…"), ("a",), True),
        (("a.c",), ("abc",), False),
    ],
)
def test_dots_stand_for_any_text_or_any_lines(
    shown: tuple[str, ...], printed: tuple[str, ...], expected: bool
) -> None:
    assert fits(shown, printed) is expected


def test_a_command_may_go_on_over_several_lines() -> None:
    (step,) = steps_of("```console\n$ echo a \\\n    b\na b\n```\n")
    assert step == Step(text="echo a \\\n    b", shown=("a b",))
