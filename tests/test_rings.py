"""Each ring works without those around it: with them deleted, its commands do what they did."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.chaos.file_options import READINGS, SERVERS
from tests.ci.github_server import github_comments
from tests.forked import Forked
from tests.package_copy import copy_package
from tests.recordings.walk import PREPARED, Walk, is_served, starts_commands
from tests.watched.lines import LINES
from tests.watched.places import answering
from tests.watched.scene import names

from gatemark.cli.command_list import COMMANDS as KERNEL
from gatemark.cli.commands import ListedCommand
from gatemark.plugins.advisory.command_list import COMMANDS as ADVISORY
from gatemark.plugins.overhead.command_list import COMMANDS as OVERHEAD
from gatemark.plugins.runlog.command_list import COMMANDS as RUNLOG
from gatemark.release.command_list import COMMANDS as RELEASE

LISTINGS: Final = ("plugins", "targets", "scorers", "schema", "validate", "init", "demo")
"""Words of lines that list what is there, or write it."""
OF_PLUGINS: Final = (
    "advisory",
    "ADVISED",
    "overhead",
    "runlog",
    "runs/V0",
    "drift derive",
    "gateway",
)
OF_RELEASE: Final = ("decisions", "ledger erase", "ledger export")
STRICTER: Final = ("ledger verify", "traces", "list")
"""Words of lines whose answer is stricter when a ring is missing: see the tests below."""


class Ring(NamedTuple):
    """A ring on its own: its commands, what is deleted, and words of lines that need that."""

    commands: Sequence[ListedCommand]
    deleted: Sequence[str]
    others: Sequence[str]


RINGS: Final = {
    "kernel": Ring(
        KERNEL,
        ("release", "server", "plugins"),
        (*LISTINGS, *OF_PLUGINS, *OF_RELEASE, *STRICTER),
    ),
    "release": Ring(
        (*KERNEL, *RELEASE), ("server", "plugins"), (*LISTINGS, *OF_PLUGINS, *STRICTER)
    ),
    "plugins": Ring(
        (*ADVISORY, *OVERHEAD, *RUNLOG), ("release", "server"), (*OF_RELEASE, "gateway")
    ),
}


class Built(NamedTuple):
    """The scene, prepared by the whole build, and the servers that lines name."""

    folder: Path
    http: str
    github: str


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("rings")
    with answering() as http, github_comments() as github:
        walked = Walk(folder, http, github.url)
        walked.write_scene()
        for line in PREPARED:
            walked.line(line)
        yield Built(folder, http, github.url)


@pytest.fixture(scope="module", params=RINGS)
def ring(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(request.param)


def strip(folder: Path, deleted: Sequence[str]) -> Path:
    """Copy the package and delete the rings around one."""
    package = copy_package(folder)
    for name in deleted:
        shutil.rmtree(package / name)
    return folder


@pytest.fixture(scope="module")
def source(ring: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return strip(tmp_path_factory.mktemp(ring), RINGS[ring].deleted)


def own_lines(ring: str) -> list[str]:
    commands = {command.name for command in RINGS[ring].commands}
    others = RINGS[ring].others
    return [
        line
        for line in (*READINGS, *LINES)
        if line.split()[0] in commands
        and line.split()[0] not in SERVERS
        and is_served(line)
        and not starts_commands(line)
        and line not in others
        and not any(word in line for word in others if word != "list")
    ]


def test_the_commands_of_a_ring_answer_as_with_all_of_them(
    ring: str, source: Path, prepared: Built, tmp_path: Path
) -> None:
    walks = []
    for name, package in (("whole", None), ("alone", source)):
        shutil.copytree(prepared.folder, tmp_path / name)
        walk = Walk(tmp_path / name, prepared.http, prepared.github, source=package)
        walk.names |= names(walk.work)
        walks.append(walk)
    whole, alone = walks
    found = own_lines(ring)
    assert len(found) > 10
    differences = []
    for line in found:
        expected, answered = whole.line(line).text, alone.line(line).text
        if expected != answered:
            differences += unified_diff(
                expected.splitlines(), answered.splitlines(), line, ring, n=0
            )
    assert not differences, "\n".join(differences[:300])


def test_what_is_deleted_is_not_listed(ring: str, source: Path) -> None:
    done = Forked(["--help"], source=source).finish()
    assert done.returncode == 0
    listed = {words[0] for line in done.stdout.decode().splitlines() if (words := line.split())}
    assert {command.name for command in RINGS[ring].commands} <= listed
    assert "serve" not in listed
    assert ("advisory" in listed) == (ring == "plugins")
    assert ("promote" in listed) == (ring == "release")


def test_events_that_nothing_installed_decides_are_inconclusive(
    ring: str, source: Path, prepared: Built
) -> None:
    """Leaving out a ring makes a verdict stricter: its events are like those of a newer build."""
    store = prepared.folder / "work" / "live"
    whole = Forked(["ledger", "verify", "--store", store]).finish()
    alone = Forked(["ledger", "verify", "--store", store], source=source).finish()
    if ring == "release":
        assert alone == whole
        return
    assert alone.returncode == 3, alone.stdout.decode()
    assert b"asset_registered/1" in alone.stdout
