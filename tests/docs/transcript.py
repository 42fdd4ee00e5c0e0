"""Reading console blocks and the files they rest on out of a Markdown page, and running them."""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.docs.command_server import FIXED
from tests.made_once import PRINTED

import gatemark

ROOT = Path(__file__).resolve().parents[2]
ANYTHING = "…"
SHIM = ".venv/bin/gatemark"
SERVER = Path(__file__).with_name("command_server.py")
DEMO = f"{SHIM} demo"
CI_VARIABLES = frozenset({"CI", "BUILD_NUMBER"})
DEMO_OF_PAGES = "demo-of-pages"
SERVER_PLACE = "GATEMARK_TEST_SERVER"
"""The variable that tells a forked process of tests which server there is already."""

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_MARK = "@@gatemark-docs@@"


class Step(NamedTuple):
    """A file to write, when ``file`` is set, or a command with the output that the page shows."""

    text: str
    shown: tuple[str, ...] = ()
    file: str | None = None


class Ran(NamedTuple):
    """What a command printed and how it ended."""

    output: tuple[str, ...]
    status: int


def steps_of(markdown: str) -> list[Step]:
    """Files and commands of a page, in order."""
    steps: list[Step] = []
    for language, info, body in _FENCE.findall(markdown):
        if title := _TITLE.search(info):
            steps.append(Step(text=body, file=title[1]))
        elif language == "console":
            steps.extend(_commands(body))
    return steps


def make_targets_of(steps: list[Step]) -> list[str]:
    """The targets of the commands that call make."""
    calls = [step.text.split() for step in steps if step.file is None]
    return [target for words in calls if words[0] == "make" for target in words[1:]]


def run_demo(folder: Path) -> None:
    """Run the demo in a folder and keep what it printed: pages that show it get a copy."""
    (folder / "examples").symlink_to(ROOT / "examples")
    with (folder / PRINTED).open("wb") as printed:
        subprocess.run(
            [sys.executable, "-I", "-S", SERVER, command_server(), "run", "demo"],
            cwd=folder,
            env={**environment(), **fixed_variables(folder.parent / f"{folder.name}.counter")},
            stdout=printed,
            stderr=subprocess.STDOUT,
            check=True,
        )
    (folder / "examples").unlink()


@cache
def command_server(*modules: str) -> str:
    """The socket of a server that lives as long as this process, and loads these or everything."""
    if not modules and SERVER_PLACE in os.environ:
        return os.environ[SERVER_PLACE]
    folder = Path(tempfile.mkdtemp(prefix="gatemark-docs-"))
    place = folder / "socket"
    loaded: list[str | Path] = []
    if modules:
        loaded = ["load", folder / "modules.json"]
        (folder / "modules.json").write_text(json.dumps(modules))
    server = subprocess.Popen(
        [sys.executable, SERVER, place, *loaded],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    return str(place)


def environment() -> dict[str, str]:
    """The environment of a person at a terminal: pytest and others print more where CI is set."""
    inherited = {name: value for name, value in os.environ.items() if name not in CI_VARIABLES}
    # Threads of numeric libraries do not survive a fork.
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**inherited, **single, "PYTHONPATH": str(Path(gatemark.__file__).parents[1])}


def fixed_variables(counter: Path) -> dict[str, str]:
    """The environment of commands whose clock and chance are fixed."""
    return {
        FIXED: str(ROOT / "tests" / "recordings" / "fixed.py"),
        "GATEMARK_TEST_COUNTER": str(counter),
        "LOGNAME": "tester",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTHONHASHSEED": "0",
    }


def run_steps(steps: list[Step], folder: Path, demo: Callable[[], Path]) -> list[tuple[Step, Ran]]:
    """Run every command but make in one shell, with the gatemark of this interpreter.

    As in a checkout, ``examples`` lies in the folder. ``demo`` gives a folder where the demo ran.
    """
    shim = folder / SHIM
    shim.parent.mkdir(parents=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    client = f'"{sys.executable}" -I -S "{SERVER}" "{command_server()}" run'
    for name, command in (("gatemark", client), ("pytest", f'"{sys.executable}" -m pytest')):
        tool = shim.with_name(name)
        tool.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    ran = []
    commands: list[Step] = []
    for step in steps:
        if step.file is not None:
            (folder / step.file).write_text(step.text, encoding="utf-8")
        elif step.text.split()[0] != "make":
            commands.append(step)
    texts = [_without_demo(step.text, demo) for step in commands]
    script = "\n".join(
        f"{text}\n__status=$?; printf '\\n{_MARK}%s\\n' $__status; (exit $__status)"
        for text in texts
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={
            **environment(),
            **fixed_variables(folder.parent / f"{folder.name}.counter"),
            "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,  # it hangs; a busy machine needs minutes
    )
    answers = re.split(rf"\n{_MARK}(\d+)\n", done.stdout)
    assert len(answers) == 2 * len(commands) + 1, done.stdout
    for step, output, status in zip(commands, answers[::2], answers[1::2], strict=False):
        ran.append((step, Ran(tuple(output.rstrip("\n").split("\n")), int(status))))
    return ran


def _without_demo(text: str, demo: Callable[[], Path]) -> str:
    """The command, or one that leaves and prints what the demo left and printed elsewhere."""
    command, _, place = text.partition(" > ")
    if command != DEMO:
        return text
    return f"cp -R {shlex.quote(str(demo()))}/. . && cat {PRINTED} > {place or '/dev/stdout'}"


def fits(shown: tuple[str, ...], printed: tuple[str, ...]) -> bool:
    """Whether output is as shown; ``…`` stands for any text, alone on a line for any lines."""
    pattern = "".join(
        r"(?:[^\n]*\n)*"
        if line == ANYTHING
        else r"[^\n]*".join(map(re.escape, line.split(ANYTHING))) + r"\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in printed)) is not None


def _commands(body: str) -> list[Step]:
    found: list[Step] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Step(text=line[2:]))
        elif found and found[-1].text.endswith("\\"):
            found[-1] = Step(text=f"{found[-1].text}\n{line}")
        elif found:
            found[-1] = found[-1]._replace(shown=(*found[-1].shown, line.rstrip()))
        else:
            raise ValueError(f"output before any command: {line!r}")
    return found
