from __future__ import annotations

import re
import subprocess

import click
import pytest

from gatemark.cli.main import VERBS, gatemark
from gatemark.core.errors import ExitCode

from .transcript import ROOT

# Put together here, so that this file does not hold what it looks for.
MACHINE_PATHS = tuple("/" + rest for rest in ("root/", "tmp/wt", "work/"))
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("anaconda", "org"),
        ("crates", "io"),
        ("ghcr", "io"),
        ("docker", "io"),
    )
)


def tracked_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout.decode()
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("verb", VERBS)
def test_summary_of_a_verb_is_the_first_line_of_its_help(verb: str) -> None:
    command = gatemark.get_command(click.Context(gatemark), verb)
    assert command is not None
    assert command.help is not None
    assert command.help.splitlines()[0] == VERBS[verb][1]


def test_changelog_has_an_unreleased_section_with_entries() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    _, found, rest = text.partition("\n## [Unreleased]\n")
    assert found
    assert re.search(r"^- \S", rest.split("\n## ")[0], re.MULTILINE)


def test_lock_file_holds_only_names_and_versions() -> None:
    lines = (ROOT / "locks" / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert lines
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+", line), line


def test_exit_codes_page_lists_every_code() -> None:
    for page in ("README.md", "docs/reference/exit-codes.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert [int(code) for code in re.findall(r"^\| (\d) \|", text, re.MULTILINE)] == [
            int(code) for code in ExitCode
        ]


def test_readme_says_that_evidence_stays_on_the_machine() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "Evidence never leaves the machine" in text
    assert "no telemetry" in text


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
@pytest.mark.parametrize("needle", [*MACHINE_PATHS, *REGISTRIES])
def test_no_tracked_file_names_a_machine_or_a_registry(needle: str) -> None:
    files = tracked_files()
    assert "README.md" in files
    holding = [name for name in files if needle.encode() in (ROOT / name).read_bytes()]
    assert holding == []


def test_precommit_hooks_are_all_local() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert set(re.findall(r"language: (\S+)", text)) == {"system"}
    assert all(entry.startswith(".venv/bin/") for entry in re.findall(r"entry: (\S+)", text))
