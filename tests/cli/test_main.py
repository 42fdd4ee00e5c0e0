from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from gatemark import __version__
from gatemark.cli.main import VERBS
from gatemark.cli.main import gatemark as root

Run = Callable[..., Any]


def test_help_lists_every_verb(gatemark: Run) -> None:
    ran = gatemark("--help")
    assert ran.code == 0
    for verb, (_, summary) in VERBS.items():
        assert verb in ran.out
        assert summary.split(",")[0] in ran.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_loads_and_says_what_the_table_says(verb: str) -> None:
    command = root.get_command(click.Context(root), verb)
    assert command is not None
    assert (command.help or "").split("\n", maxsplit=1)[0] == VERBS[verb][1]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from gatemark.cli.main import main; main(['--help']);"
        "print(','.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.strip().split(","))
    heavy = {"numpy", "scipy", "rich", "sqlalchemy", "yaml", "jsonschema_rs", "altair", "jinja2"}
    assert not loaded & heavy


def test_the_version_is_the_packages(gatemark: Run) -> None:
    assert gatemark("--version").out == f"gatemark {__version__}\n"


@pytest.mark.parametrize("arguments", [("nonsense",), ("score", "nonsense"), ("list", "--nope")])
def test_unknown_words_are_usage_errors_without_a_traceback(
    arguments: tuple[str, ...], gatemark: Run
) -> None:
    ran = gatemark(*arguments)
    assert ran.code == 2
    assert ran.err.startswith("gatemark: No such")


def test_the_module_runs_as_a_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gatemark", "validate", str(tmp_path / "gone.jsonl")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"gatemark: {tmp_path / 'gone.jsonl'}: No such file or directory\n"
